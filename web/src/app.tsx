/*! Contains Preact 11.2.0, MIT License, Copyright (c) 2015-present Jason Miller: web/vendor/preact/LICENSE in the source of Holdfast. */
import { render } from 'preact'
import { useEffect, useState } from 'preact/hooks'
import { ask, key } from './api'
import { FeedPage, type Sort } from './feed'
import { sats } from './format'
import { ItemPage } from './item'
import { NotificationsPage } from './notifications'
import { PayDialog } from './paydialog'
import { actionFragment, anonymousActions, forgetSecret, goesOn, over, payable, resume, said, shown, underway, type Action } from './payments'
import { ProfilePage } from './profile'
import { ReceivingPage } from './receiving'
import { Link, path, useTitle } from './router'
import { me, refresh } from './session'
import { SettingsPage } from './settings'
import { TerritoriesPage, TerritoryPage } from './territory'
import { CreditsPage, nameOf, WalletPage, WithdrawPage } from './wallet'
import { PostPage } from './write'

// read is the parts of an address. One that is no text is nowhere.
function read(address: string): string[] {
  try {
    return address.split('/').slice(1).map(decodeURIComponent)
  } catch {
    return ['?']
  }
}

// Page is the page at an address. web/web.go knows the same addresses.
function Page() {
  const [first, second = '', third = ''] = read(path.use())
  switch (first) {
    case '':
      return <FeedPage sort="HOT" />
    case 'new':
    case 'top':
      return <FeedPage sort={first.toUpperCase() as Sort} />
    case 't':
      return <TerritoryPage name={second} sort={['new', 'top'].includes(third) ? (third.toUpperCase() as Sort) : 'HOT'} />
    case 'territories':
      return <TerritoriesPage />
    case 'items':
      return <ItemPage id={second} key={second} />
    case 'u':
      return <ProfilePage name={second} />
    case 'post':
      return <PostPage />
    case 'notifications':
      return <NotificationsPage />
    case 'wallet':
      return second === 'credits' ? <CreditsPage /> : second === 'withdraw' ? <WithdrawPage /> : second === 'receiving' ? <ReceivingPage /> : <WalletPage />
    case 'settings':
      return <SettingsPage />
    default:
      return <Nowhere />
  }
}

function Nowhere() {
  useTitle('Not found')
  return <><h1>Not found</h1><p>There is no such page. <Link to="/">Back to the posts</Link></p></>
}

function Header() {
  const mine = me.use()
  const signedIn = key.use()
  const unseen = mine?.unseenNotifications ?? 0
  return (
    <header class="top">
      <Link to="/" class="brand">Holdfast</Link>
      <nav aria-label="Main">
        <Link to="/territories">Territories</Link>
        {signedIn ? (
          <>
            <Link to="/notifications">Notifications{unseen > 0 && <> <span class="badge">{unseen}<span class="unseen"> new</span></span></>}</Link>
            <Link to="/wallet">{mine ? sats(Number(mine.creditsMsat)).replace(/ sats?$/, ' credits') : 'Wallet'}</Link>
            {mine && <Link to={`/u/${mine.user.name}`}>{mine.user.name}</Link>}
            <Link to="/settings">Settings</Link>
          </>
        ) : (
          <Link to="/settings" class="button">Sign in</Link>
        )}
      </nav>
    </header>
  )
}

// Waiting shows the payments that are not over and that no dialog shows: those that wait for their payer, and those on
// their way.
function Waiting() {
  const dialog = shown.use()
  const waiting = underway.use().filter((p) => p !== dialog && p.action && !p.over)
  if (waiting.length === 0) return null
  return (
    <aside class="waiting" aria-label="Payments that are not over">
      {waiting.map((p) => (
        <p key={p}>
          <span><bdi>{p.intent.what}</bdi> is {payable(p.action!) ? 'not paid yet' : 'under way'}.</span>
          <button onClick={() => shown.set(p)}>{payable(p.action!) ? `Pay ${sats(p.action!.costMsat)}` : 'Show'}</button>
        </p>
      ))}
    </aside>
  )
}

function Toast() {
  const message = said.use() // the same text again is another message
  const [gone, setGone] = useState(message)
  useEffect(() => {
    const timer = setTimeout(() => setGone(message), 6000)
    return () => clearTimeout(timer)
  }, [message])
  return <div class="toast" role="status">{message !== gone && <span key={message}><bdi>{message.what}</bdi>{message.text}</span>}</div>
}

const recent = () => ask<{ paidActions: { nodes: Action[] } }>(`{ paidActions(first: 20) { nodes { ...Action } } } ${actionFragment}`)

// recall finds what was begun before this page was opened and is not over. Of several attempts the last counts, which
// only the one before it may tell of. What has ended needs no secret any more, unless somebody looks at it. What cannot
// be told for a moment is asked for again.
async function recall() {
  const as = key.get()
  const answers = await Promise.allSettled(as ? [recent().then((a) => a.paidActions.nodes)] : anonymousActions())
  if (key.get() !== as) return // somebody else's page by now
  const begun = answers.flatMap((a) => (a.status === 'fulfilled' ? a.value : []))
  for (const a of begun) {
    const last = !begun.some((b) => b.id === a.successorId)
    if (last && (!over(a) || goesOn(a))) resume(a, nameOf(a.kind), false)
    else if (!underway.get().some((p) => p.action?.id === a.id)) forgetSecret(a.id)
  }
  if (answers.some((a) => a.status === 'rejected' && a.reason.unclear)) setTimeout(() => key.get() === as && recall(), 3000)
}

function App() {
  return (
    <>
      <a class="skip" href="#main">Skip to content</a>
      <Header />
      <main id="main" tabIndex={-1}><Page /></main>
      <Waiting />
      <Toast />
      <PayDialog />
      <footer class="bottom"><a href="/playground">GraphQL</a></footer>
    </>
  )
}

render(<App />, document.getElementById('app')!)
void refresh()
void recall()
key.listen(() => void recall())
