import { useState } from 'preact/hooks'
import { ask, key } from './api'
import { count, sats } from './format'
import { Byline, commentFragment, itemFragment, type Comment, type Item, type Poll } from './items'
import { actionFragment, pay, resume, type Action } from './payments'
import { useQuery } from './query'
import { Link, useTitle } from './router'
import { Away, Text } from './text'
import { CommentForm } from './write'
import { perTap, Zap, zap } from './zap'

type Node = { item: Comment | null; depth: number; more: boolean }
type Branch = Node & { below: Branch[] }

const threadFragment = `fragment Thread on Item { thread(after: $after) { nodes { item { ...Comment } depth more } next } } ${commentFragment}`
const itemQuery = `query ($id: ID!, $after: ID) { item(id: $id) { ...Item uploads { url contentType } forwards { pct user { name } } payment { ...Action } ...Thread } }
  ${itemFragment} ${threadFragment} ${actionFragment}`
const moreQuery = `query ($id: ID!, $after: ID) { item(id: $id) { ...Thread } } ${threadFragment}`

// How often the page checks whether others have zapped or answered, in milliseconds.
const lookEvery = 4000

type Thread = { thread: { nodes: Node[]; next: string | null } }
type Whole = Item & Thread & { payment: Action | null; uploads: { url: string; contentType: string }[]; forwards: Forward[] }
type Forward = { pct: number; user: { name: string } }
type Found = { item: Whole | null }

// further adds the following pages to the first page of a thread. All of them are asked for each time: so they fit
// together, and each has what was just answered there.
const further = (id: string, pages: number) => async ({ item }: Found): Promise<Found> => {
  for (let page = 1; item?.thread.next && page < pages; page++) {
    const { nodes, next } = (await ask<{ item: Thread }>(moreQuery, { id, after: item.thread.next })).item.thread
    item.thread = { nodes: [...item.thread.nodes, ...nodes], next }
  }
  return { item }
}

export function ItemPage({ id }: { id: string }) {
  const [pages, setPages] = useState(1)
  const { data, error, again } = useQuery<Found>(itemQuery, { id }, lookEvery * pages, further(id, pages))
  const item = data?.item
  useTitle(item ? (item.title ?? 'Comment') : 'Item')
  if (error && !data) return <p class="bad" role="alert">{error.message}</p>
  if (!data) return <p class="muted" role="status">Loading…</p>
  if (!item) return <><h1>Not found</h1><p>There is no such item, or you may not see it.</p></>
  const payable = item.state !== 'PAID' && item.payment
  return (
    <article>
      {item.parent && <p><Link to={`/items/${item.parent.id}`}>← In reply to</Link></p>}
      <div class="head item" id={`item-${item.id}`}>
        <Zap item={item} />
        <div>
          <h1>{item.title ?? (item.kind === 'BIO' ? 'Bio' : 'Comment')}</h1>
          <Byline item={item} />
        </div>
      </div>
      {item.url && <p class="away"><Away url={item.url} /></p>}
      {payable && <p class="note">Only you can see this until it is paid. <button onClick={() => resume(payable, item.title ?? 'Comment', true)}>Pay</button></p>}
      <Text of={item.body} />
      {item.uploads.map((u) => u.contentType.startsWith('image/') ? <img class="upload" src={u.url} alt="" loading="lazy" /> : <p><a href={u.url}>Video</a></p>)}
      {item.poll && <Votes of={item.poll} />}
      {item.forwards.length > 0 && <Forwards of={item.forwards} />}
      {item.state === 'PAID' && <MoreZap item={item} />}
      <section aria-labelledby="comments">
        <h2 id="comments">{count(item.commentCount, 'comment')}</h2>
        {item.state === 'PAID' && <CommentForm parent={item.id} />}
        <Branches of={grow(item.thread.nodes)} />
        {item.thread.next && <button class="more" onClick={() => { setPages(pages + 1); again() }}>More comments</button>}
      </section>
    </article>
  )
}

// grow turns the list of a thread, in reading order, into a tree.
function grow(nodes: Node[]): Branch[] {
  const top: Branch[] = []
  const way = [top]
  for (const node of nodes) {
    const branch = { ...node, below: [] }
    way[node.depth - 1]?.push(branch)
    way[node.depth] = branch.below
  }
  return top
}

function Branches({ of }: { of: Branch[] }) {
  if (of.length === 0) return null
  return <ol class="thread">{of.map((branch) => <Answer key={branch.item?.id} branch={branch} />)}</ol>
}

function Answer({ branch: { item, more, below } }: { branch: Branch }) {
  const [answering, setAnswering] = useState(false)
  if (!item) return <li><p class="muted">Deleted</p><Branches of={below} /></li>
  return (
    <li id={`item-${item.id}`}>
      <div class="head comment">
        <Zap item={item} />
        <Byline item={item} />
      </div>
      <Text of={item.body} />
      {item.state === 'PAID' && <button class="quiet" aria-expanded={answering} onClick={() => setAnswering(!answering)}>Reply</button>}
      {' '}<Link to={`/items/${item.id}`} class="quiet">{more ? 'More replies' : 'Link'}</Link>
      {answering && <CommentForm parent={item.id} focus done={() => setAnswering(false)} />}
      <Branches of={below} />
    </li>
  )
}

// Forwards says who gets a share of what one is about to zap.
function Forwards({ of }: { of: Forward[] }) {
  return (
    <p class="muted">
      Of what its author gets for a zap, {of.map(({ pct, user }, i) => <>{i > 0 && ', '}{pct}% goes to <Link to={`/u/${user.name}`}>{user.name}</Link></>)}.
    </p>
  )
}

function MoreZap({ item }: { item: Item }) {
  const [amount, setAmount] = useState(perTap.get())
  const by = (mutation: string, what: string) => () =>
    void pay({ what: `${what} of ${count(amount, 'sat')}`, mutation, args: { item: ['ID!', item.id], sats: ['Sats!', amount] } })
  return (
    <form class="more-zap" onSubmit={(e) => { e.preventDefault(); void zap(item, amount) }}>
      <label>Sats<input type="number" required min={1} value={amount} onInput={(e) => setAmount(Number(e.currentTarget.value))} /></label>
      <button>Zap</button>
      {key.use() && <button type="button" onClick={by('downZap', 'Down-zap')}>Down-zap</button>}
      {key.use() && item.title !== null && <button type="button" onClick={by('boost', 'Boost')}>Boost</button>}
    </form>
  )
}

function Votes({ of }: { of: Poll }) {
  const closed = of.closesAt !== null && Date.parse(of.closesAt) < Date.now()
  const votable = key.use() && !closed && !of.myVote
  return (
    <section class="poll" aria-label="Poll">
      <ul class="list">
        {of.options.map((o) => (
          <li>
            <span>{o.text}</span> <span class="muted">{count(o.votes, 'vote')}{of.myVote?.option.id === o.id && (of.myVote.state === 'PAID' ? ', including yours' : ', yours is not paid yet')}</span>
            {votable && <button onClick={() => void pay({ what: `Vote: ${o.text}`, mutation: 'pollVote', args: { option: ['ID!', o.id] } })}>Vote</button>}
          </li>
        ))}
      </ul>
      <p class="muted">{closed ? 'The poll is closed.' : `A vote costs ${sats(of.price * 1000)}.`}</p>
    </section>
  )
}
