import { count } from './format'
import { itemFragment, ItemRow, type Item } from './items'
import { List } from './list'
import { useQuery } from './query'
import { Link, useTitle } from './router'
import { me } from './session'
import { Text } from './text'
import { Balances, History } from './wallet'

type User = { name: string; createdAt: string; postCount: number; commentCount: number; bio: { id: string; body: string } | null }

const userQuery = `query ($name: String!) { user(name: $name) { name createdAt postCount commentCount bio { id body } } }`
const itemsQuery = `query ($name: String!, $after: ID) { user(name: $name) { page: items(after: $after) { nodes { ...Item } next } } } ${itemFragment}`

export function ProfilePage({ name }: { name: string }) {
  useTitle(name)
  const own = me.use()?.user.name === name
  const { data, error } = useQuery<{ user: User | null }>(userQuery, { name })
  if (error) return <p class="bad" role="alert">{error.message}</p>
  if (!data) return <p class="muted" role="status">Loading…</p>
  const user = data.user
  if (!user) return <><h1>Not found</h1><p>Nobody has this name.</p></>
  return (
    <>
      <h1>{user.name}</h1>
      <p class="muted">Here since {new Date(user.createdAt).toLocaleDateString()} · {count(user.postCount, 'post')} · {count(user.commentCount, 'comment')}</p>
      {user.bio && <Text of={user.bio.body} />}
      {own && <section aria-label="Balances"><Balances /><p><Link to="/wallet">Wallet</Link></p></section>}
      <h2>Posts and comments</h2>
      <List query={itemsQuery} variables={{ name }} of="user" class="items" empty="Nothing yet." row={(item: Item) => <ItemRow key={item.id} item={item} />} />
      {own && <><h2>History</h2><History /></>}
    </>
  )
}
