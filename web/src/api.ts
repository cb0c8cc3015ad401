import { Store } from './store'

// The one GraphQL client: requests by POST, subscriptions over one websocket (graphql-transport-ws).

const kept = 'holdfast.key'
const ending = 'holdfast.key-that-ends'

// key is the API key of whoever uses this browser; null: nobody has signed in.
export const key = new Store<string | null>(localStorage.getItem(kept))

// signIn stores a key; null: none. A key that ends was made for this browser, by a wallet, and is no use after signing
// out.
export function signIn(newKey: string | null, ends = false) {
  if (newKey) localStorage.setItem(kept, newKey)
  else localStorage.removeItem(kept)
  if (newKey && ends) localStorage.setItem(ending, newKey)
  else localStorage.removeItem(ending)
  use(newKey)
}

function use(newKey: string | null) {
  socket?.close()
  key.set(newKey)
}

// Who signs out in another window of this browser does so here.
addEventListener('storage', () => {
  const now = localStorage.getItem(kept)
  if (key.get() && now !== key.get()) use(now)
})

// signOut forgets the key, and revokes it if it was made for this browser. It works offline, too: then the key is only
// forgotten here.
export function signOut() {
  if (key.get() && localStorage.getItem(ending) === key.get()) ask('mutation { signOut { id } }').catch(() => {})
  signIn(null)
}

// Refusal is an error that was answered. Its code is stable; its message is for people. costMsat is the present price,
// if that is more than was agreed to.
export class Refusal extends Error {
  constructor(public code: string, message: string, public costMsat: string | null = null) {
    super(message)
  }

  // unclear says that the request may have been carried out all the same, or may be if it is repeated.
  get unclear() {
    return [
      'NO_ANSWER', 'UNKNOWN_OUTCOME', 'TRY_AGAIN', 'LIGHTNING_UNAVAILABLE', 'TIME_LIMIT_EXCEEDED', 'OPERATION_LIMIT_EXCEEDED', 'INTERNAL', 'RATE_LIMITED',
    ].includes(this.code)
  }
}

// Whatever stands between may answer too, such as a gateway: what has neither is not the service's answer.
type Answer = { data?: any; errors?: { message: string; extensions?: { code?: string; costMsat?: string } }[] }

const noAnswer = () => new Refusal('NO_ANSWER', 'No answer has come. Check your connection, and try again.')

function refusalOf(errors: Answer['errors']): Refusal | null {
  const first = errors?.[0]
  return first ? new Refusal(first.extensions?.code ?? 'NO_ANSWER', first.message, first.extensions?.costMsat) : null
}

// patience is after how many milliseconds no answer comes any more: the service answers within 30 seconds.
const patience = 40_000

export async function ask<T>(query: string, variables: object = {}, as = key.get()): Promise<T> {
  const headers: Record<string, string> = { 'Content-Type': 'application/json' }
  if (as) headers.Authorization = `Bearer ${as}`
  let answer: Answer
  try {
    const response = await fetch('/graphql', { method: 'POST', headers, body: JSON.stringify({ query, variables }), signal: AbortSignal.timeout(patience) })
    answer = await response.json()
    // A key made by a wallet has expired: its owner signs in again. A key that somebody keeps themselves is left to
    // them.
    if (response.status === 401 && as === key.get() && as === localStorage.getItem(ending)) signIn(null)
  } catch {
    throw noAnswer()
  }
  const refusal = refusalOf(answer?.errors)
  if (refusal) throw refusal
  if (!answer?.data) throw noAnswer()
  return answer.data
}

type Following = { query: string; variables: object; next: (data: any) => void; end: (why: Refusal | null) => void }

const followed = new Map<string, Following>()
let socket: WebSocket | null = null
let acknowledged = false
let failures = 0
let last = 0
let heard = 0 // when the connection last said something

// silence is how long a connection may say nothing: the service pings every 20 seconds.
const silence = 50_000

// follow calls next with each answer of a subscription, reconnecting if the connection is lost, until the subscription
// has ended or the returned function is called.
export function follow(query: string, variables: object, next: Following['next'], end: Following['end'] = () => {}): () => void {
  const id = String(++last)
  followed.set(id, { query, variables, next, end })
  if (!socket) connect()
  else if (acknowledged) subscribe(id)
  return () => {
    if (followed.delete(id) && acknowledged) send({ id, type: 'complete' })
    if (followed.size === 0) socket?.close()
  }
}

// send sends nothing over a connection that is closing: whatever is followed then is subscribed to over the next one (lost).
function send(message: object) {
  if (socket?.readyState === WebSocket.OPEN) socket.send(JSON.stringify(message))
}

function subscribe(id: string) {
  const { query, variables } = followed.get(id)!
  send({ id, type: 'subscribe', payload: { query, variables } })
}

function connect() {
  const mine = new WebSocket(location.origin.replace(/^http/, 'ws') + '/graphql', 'graphql-transport-ws')
  socket = mine
  heard = Date.now()
  mine.onopen = () => send({ type: 'connection_init', payload: key.get() ? { Authorization: `Bearer ${key.get()}` } : {} })
  mine.onmessage = (event) => {
    heard = Date.now()
    hear(JSON.parse(event.data))
  }
  mine.onclose = () => lost(mine)
}

function lost(gone: WebSocket) {
  if (socket !== gone) return
  socket = null
  acknowledged = false
  // The pause grows up to ten seconds; the first time there is none.
  if (followed.size > 0) setTimeout(() => socket || followed.size === 0 || connect(), Math.min(10_000, 250 * (2 ** failures++ - 1)))
}

// A connection can be gone without a word, as when a telephone changes its network.
setInterval(() => {
  const silent = socket
  if (!silent || Date.now() - heard < silence) return
  silent.onmessage = null
  silent.close()
  lost(silent)
}, 5000)

function hear(message: { type: string; id: string; payload?: any }) {
  const one = followed.get(message.id)
  switch (message.type) {
    case 'connection_ack':
      acknowledged = true
      failures = 0
      followed.forEach((_, id) => subscribe(id))
      break
    case 'ping':
      send({ type: 'pong' })
      break
    case 'next': {
      const refusal = refusalOf(message.payload.errors)
      if (refusal) ended(message.id, refusal)
      else one?.next(message.payload.data)
      break
    }
    case 'error':
      ended(message.id, refusalOf(message.payload) ?? noAnswer())
      break
    case 'complete':
      ended(message.id, null)
  }
}

function ended(id: string, why: Refusal | null) {
  const one = followed.get(id)
  followed.delete(id)
  one?.end(why)
  if (followed.size === 0) socket?.close()
}
