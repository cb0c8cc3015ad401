import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks'
import { key } from './api'
import { sats } from './format'
import { pay, type Action } from './payments'
import { useQuery } from './query'
import { go, useTitle } from './router'

// usePrice returns the present price of writing: in words, and as the most that the payer agrees to, since a territory's
// founder can raise its price at any moment. Until that is known nothing may be asked for, except by whoever has to sign
// in anew: the answer says so, and charges nobody. The price also rises with what one has written lately, so it is asked
// for again while one types.
function usePrice(variables: { parent?: string; territory?: string; boost?: number }, text: string): { said: string; most: number | null; may: boolean } {
  const [settled, setSettled] = useState(text)
  useEffect(() => {
    const timer = setTimeout(() => setSettled(text), 600)
    return () => clearTimeout(timer)
  }, [text])
  const { data, error, again } = useQuery<{ price: string }>(
    'query ($parent: ID, $territory: String, $boost: Sats) { price: itemPriceMsat(parent: $parent, territory: $territory, boost: $boost) }',
    { parent: variables.parent ?? null, territory: variables.territory || null, boost: variables.boost || null },
    15_000,
  )
  useEffect(() => {
    if (settled) again()
  }, [settled])
  if (error || !data) return { said: error ? error.message : '…', most: null, may: error?.code === 'UNAUTHENTICATED' }
  return { said: sats(data.price), most: Math.ceil(Number(data.price) / 1000), may: true }
}

function Price({ price, territory }: { price: string; territory?: string }) {
  return (
    <p class="price" aria-live="polite">
      Price now: <strong>{price}</strong>
      {!key.use() && <span class="muted"> (less if you sign in)</span>}
      {territory && <span class="muted"> in {territory}</span>}
    </p>
  )
}

// itemOf is the item that was written, once it can be seen.
const itemOf = (a: Action) => a.result?.item?.id

// useStill tells later whether the form is still there and holds what it holds now: paying for what was written earlier
// takes nobody from what they are writing by then.
function useStill(written: string): () => boolean {
  const now = useRef('')
  useLayoutEffect(() => {
    now.current = written
    return () => void (now.current = '')
  }, [written])
  return () => now.current === written
}

export function PostPage() {
  useTitle('Write a post')
  const [title, setTitle] = useState('')
  const [body, setBody] = useState('')
  const [url, setURL] = useState('')
  const [boost, setBoost] = useState(0)
  const [territory, setTerritory] = useState(new URLSearchParams(location.search).get('territory') ?? '')
  const { data } = useQuery<{ territories: { nodes: { name: string; state: string }[] } }>('{ territories(first: 100) { nodes { name state } } }')
  const price = usePrice({ territory, boost }, title + body)
  const still = useStill(JSON.stringify([title, body, url, boost, territory]))
  const submit = (event: Event) => {
    event.preventDefault()
    const done = (a: Action) => itemOf(a) && still() && go(`/items/${itemOf(a)}`)
    void pay({
      what: `Post: ${title}`,
      mutation: url ? 'createLink' : 'createPost',
      args: {
        title: ['String!', title], body: ['String!', body], url: ['String!', url], territory: ['String', territory], boost: ['Sats', boost || null],
        maxCostSats: ['Sats', price.most],
      },
      begun: (a) => a.state === 'PENDING' && done(a),
      paid: done,
    })
  }
  return (
    <>
      <h1>Write a post</h1>
      <form class="stack" onSubmit={submit}>
        <label>Title<input required maxLength={140} value={title} onInput={(e) => setTitle(e.currentTarget.value)} /></label>
        <label>Link <small>(optional)</small><input type="url" placeholder="https://" pattern="https?://.*" value={url} onInput={(e) => setURL(e.currentTarget.value)} /></label>
        <label>Text <small>(optional)</small><textarea rows={8} maxLength={40_000} value={body} onInput={(e) => setBody(e.currentTarget.value)} /></label>
        <div class="side">
          <label>Territory
            <select value={territory} onInput={(e) => setTerritory(e.currentTarget.value)}>
              <option value="">none</option>
              {data?.territories.nodes.filter((t) => t.state !== 'STOPPED').map((t) => <option value={t.name}>{t.name}</option>)}
            </select>
          </label>
          <label>Boost in sats <small>(optional)</small><input type="number" min={0} value={boost || ''} onInput={(e) => setBoost(Number(e.currentTarget.value))} /></label>
        </div>
        <Price price={price.said} territory={territory} />
        <button class="primary" disabled={!price.may}>Post</button>
      </form>
    </>
  )
}

// CommentForm answers an item.
export function CommentForm({ parent, done, focus }: { parent: string; done?: () => void; focus?: boolean }) {
  const [body, setBody] = useState('')
  const price = usePrice({ parent }, body)
  const still = useStill(body)
  const submit = (event: Event) => {
    event.preventDefault()
    const written = () => {
      if (!still()) return
      setBody('')
      done?.()
    }
    void pay({
      what: 'Comment',
      mutation: 'createComment',
      args: { parent: ['ID!', parent], body: ['String!', body], maxCostSats: ['Sats', price.most] },
      begun: (a) => a.state === 'PENDING' && written(),
      paid: written,
    })
  }
  return (
    <form class="stack comment" onSubmit={submit}>
      <label>Your comment<textarea required rows={3} maxLength={40_000} autofocus={focus} value={body} onInput={(e) => setBody(e.currentTarget.value)} /></label>
      <div class="side">
        <Price price={price.said} />
        <button class="primary" disabled={!price.may}>Comment</button>
      </div>
    </form>
  )
}
