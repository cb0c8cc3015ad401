import { key } from './api'
import { ItemRow, postFragment, type Post } from './items'
import { List } from './list'
import { Link, useTitle } from './router'

export type Sort = 'HOT' | 'NEW' | 'TOP'

const feedQuery = `query ($sort: FeedSort!, $territory: String, $after: String) {
  page: items(sort: $sort, territory: $territory, after: $after) { nodes { ...Post } next }
} ${postFragment}`

// Posts shows the posts of all territories, or of one.
export function Posts({ sort, territory }: { sort: Sort; territory?: string }) {
  const base = territory ? `/t/${territory}` : ''
  return (
    <>
      <nav class="tabs" aria-label="Sort posts">
        <Link to={base || '/'}>Hot</Link>
        <Link to={`${base}/new`}>New</Link>
        <Link to={`${base}/top`}>Top</Link>
      </nav>
      <List query={feedQuery} variables={{ sort, territory: territory ?? null }} every={6000} class="items"
        empty="Nothing has been written here yet." row={(item: Post) => <ItemRow key={item.id} item={item} />} />
    </>
  )
}

export function FeedPage({ sort }: { sort: Sort }) {
  useTitle('')
  return (
    <>
      <div class="head">
        <h1>Posts</h1>
        <Link to="/post" class="button primary">Write a post</Link>
      </div>
      {!key.use() && <p class="intro">Writing and zapping cost a few sats here, and authors earn what they are zapped. Try it: you need no account to write a post, and you can pay with any Lightning wallet.</p>}
      <Posts sort={sort} />
    </>
  )
}
