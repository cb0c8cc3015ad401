import { useEffect } from 'preact/hooks'
import { ask } from './api'
import { ago } from './format'
import { List } from './list'
import { actionFragment, resume, type Action } from './payments'
import { Link, useTitle } from './router'
import { me, refresh } from './session'
import { SignInFirst } from './settings'
import { nameOf } from './wallet'

type Notification = {
  id: string
  kind: string
  item: { id: string; title: string | null } | null
  territory: { name: string } | null
  day: string | null
  action: Action | null
  retryUntil: string | null
  createdAt: string
}

const query = `query ($after: ID) { page: notifications(after: $after) {
  nodes { id kind item { id title } territory { name } day action { ...Action } retryUntil createdAt } next } } ${actionFragment}`

const words: Record<string, string> = {
  MENTION: 'You were mentioned', REPLY: 'You got a reply', ZAP: 'You were zapped', DOWN_ZAPPED: 'Something you wrote was down-zapped', RECEIVED: 'You received money',
  WITHDRAWN: 'Your withdrawal has arrived', TERRITORY_DUE: 'Payment for your territory is due', TERRITORY_STOPPED: 'Your territory was stopped',
  REWARD: 'You got a reward', INVITE_REDEEMED: 'Your invite was redeemed', WEBHOOK_DISABLED: 'One of your webhooks was disabled',
}

export function NotificationsPage() {
  useTitle('Notifications')
  return (
    <SignInFirst>
      <h1>Notifications</h1>
      <Seen />
      <List query={query} every={10_000} empty="Nothing yet." row={(n: Notification) => <Line key={n.id} of={n} />} />
    </SignInFirst>
  )
}

// Seen marks everything on this page as seen.
function Seen() {
  const unseen = me.use()?.unseenNotifications ?? 0
  useEffect(() => {
    if (unseen === 0) return
    ask<{ page: { nodes: { id: string }[] } }>('{ page: notifications(first: 1) { nodes { id } } }')
      .then(({ page }) => ask('mutation ($id: ID!) { notificationsSeen(upTo: $id) { unseenNotifications } }', { id: page.nodes[0].id }))
      .then(refresh, () => {}) // it is tried again the next time the page is opened
  }, [unseen])
  return null
}

function Line({ of: { kind, item, territory, day, action, retryUntil, createdAt } }: { of: Notification }) {
  const failed = kind === 'PAYMENT_FAILED'
  const retry = () => void resume(action!, nameOf(action!.kind), true).retry()
  return (
    <li>
      <p>
        <strong class={failed ? 'bad' : ''}>{failed ? `Not paid: ${action ? nameOf(action.kind) : 'a payment'}` : words[kind] ?? kind}</strong>
        {item && <>{' · '}<Link to={`/items/${item.id}`}>{item.title ?? 'comment'}</Link></>}
        {territory && <>{' · '}<Link to={`/t/${territory.name}`}>{territory.name}</Link></>}
        {day && ` · for ${day}`}
        {' · '}<time class="muted" dateTime={createdAt}>{ago(createdAt)}</time>
      </p>
      {failed && action?.failure && <p class="muted">{action.failure.message}</p>}
      {failed && retryUntil && action?.state === 'FAILED' && <button onClick={retry}>Try again</button>}
    </li>
  )
}
