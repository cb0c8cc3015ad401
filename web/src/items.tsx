import { ago, count, sats } from './format'
import { Link } from './router'
import { Away, safeURL } from './text'
import { Zap } from './zap'

export type Item = {
  id: string
  kind: string
  state: 'PENDING' | 'PAID' | 'FAILED'
  title: string | null
  body: string
  url: string | null
  author: { name: string } | null
  territory: { name: string } | null
  parent: { id: string } | null
  createdAt: string
  msat: string
  commentCount: number
  boostMsat: string
  bounty: { sats: number; paidAt: string | null } | null
  job: { company: string; location: string } | null
  poll: Poll | null
}

export type Poll = {
  price: number
  closesAt: string | null
  options: { id: string; text: string; votes: number }[]
  myVote: { option: { id: string }; state: string } | null
}

// postFragment is what a list of posts shows of each: not its text, which can be long.
export const postFragment = `fragment Post on Item {
  id kind state title url author { name } territory { name } parent { id } createdAt msat commentCount boostMsat
  bounty { sats paidAt } job { company location } poll { price closesAt options { id text votes } myVote { option { id } state } }
}`
export type Post = Omit<Item, 'body'>

export const itemFragment = `fragment Item on Item { ...Post body } ${postFragment}`

// commentFragment is what a thread needs from each of its many items.
export const commentFragment = `fragment Comment on Item { id kind state title body author { name } createdAt msat }`
export type Comment = Pick<Item, 'id' | 'kind' | 'state' | 'title' | 'body' | 'author' | 'createdAt' | 'msat'>

function Author({ of }: { of: Pick<Item, 'author'> }) {
  return of.author ? <Link to={`/u/${of.author.name}`}>{of.author.name}</Link> : <span>anonymous</span>
}

// Byline says who wrote an item, where, and when.
export function Byline({ item }: { item: Omit<Comment, 'body'> & Partial<Item> }) {
  return (
    <p class="byline">
      <Author of={item} />
      {item.territory && <> in <Link to={`/t/${item.territory.name}`}>{item.territory.name}</Link></>}
      {' · '}<time dateTime={item.createdAt} title={new Date(item.createdAt).toLocaleString()}>{ago(item.createdAt)}</time>
      {item.title !== null && <>{' · '}<Link to={`/items/${item.id}`}>{count(item.commentCount ?? 0, 'comment')}</Link></>}
      {item.bounty && <>{' · '}<span class="tag">{item.bounty.paidAt ? 'bounty paid' : `bounty ${count(item.bounty.sats, 'sat')}`}</span></>}
      {Number(item.boostMsat ?? 0) > 0 && <>{' · '}<span class="tag">boosted {sats(item.boostMsat!)}</span></>}
      {item.state !== 'PAID' && <>{' · '}<span class="tag waiting">{item.state === 'PENDING' ? 'not paid yet: only you see it' : 'not paid'}</span></>}
    </p>
  )
}

function ItemTitle({ item }: { item: Post }) {
  const away = item.url && safeURL(item.url)
  return (
    <>
      <Link to={`/items/${item.id}`}>{item.title}</Link>
      {away && <> <small><Away url={away.href}>{away.hostname}<span class="unseen"> (opens another site)</span> ↗</Away></small></>}
      {item.job && <small> <bdi>{item.job.company}</bdi>{item.job.location && <>, <bdi>{item.job.location}</bdi></>}</small>}
    </>
  )
}

// ItemRow shows an item in a list: a post by its title, a comment by its first words.
export function ItemRow({ item }: { item: Post & Partial<Item> }) {
  const { body = '' } = item
  const words = body.length > 140 ? body.slice(0, 140) + '…' : body
  return (
    <li class="row" id={`item-${item.id}`}>
      <Zap item={item} />
      <div>
        <h3>{item.title !== null ? <ItemTitle item={item} /> : <Link to={`/items/${item.id}`}>{words}</Link>}</h3>
        <Byline item={item} />
      </div>
    </li>
  )
}
