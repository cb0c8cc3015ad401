import type { ComponentChildren } from 'preact'
import { useState } from 'preact/hooks'
import { ask, key, Refusal, signIn, signOut } from './api'
import { Privacy } from './privacy'
import { go, Link, useTitle } from './router'
import { me } from './session'
import { WalletSignIn, withWallet } from './walletsignin'
import { perTap, setPerTap } from './zap'

// SignInFirst shows its children to those who have signed in, and the way to sign in to all others.
export function SignInFirst({ children }: { children: ComponentChildren }) {
  if (key.use()) return <>{children}</>
  return <><h1>Sign in first</h1><p>This page is about your own account. <Link to="/settings" class="button primary">Sign in</Link></p></>
}

// ways are the ways to sign in, each a component that calls signIn with a key.
const ways = withWallet ? [WalletSignIn, SignUp, PasteKey] : [SignUp, PasteKey]

export function SettingsPage() {
  useTitle('Settings')
  const signedIn = key.use()
  return (
    <>
      <h1>{signedIn ? 'Settings' : 'Sign in'}</h1>
      {signedIn ? <Account apiKey={signedIn} /> : ways.map((Way) => <Way />)}
      <Zapping key={signedIn} />
      {signedIn && <Privacy key={signedIn} />}
    </>
  )
}

function SignUp() {
  const [name, setName] = useState('')
  const [error, setError] = useState('')
  const submit = async (event: Event) => {
    event.preventDefault()
    try {
      const { signUp } = await ask<{ signUp: { key: string } }>('mutation ($name: String!) { signUp(name: $name) { key } }', { name: name.trim() })
      signIn(signUp.key)
    } catch (refusal) {
      setError((refusal as Refusal).message)
    }
  }
  return (
    <form class="stack" onSubmit={submit} aria-labelledby="sign-up">
      <h2 id="sign-up">New here</h2>
      <label>Name<input required pattern="[a-z0-9_]{1,32}" title="1 to 32 of a–z, 0–9 and _" autocomplete="username" autocapitalize="none" value={name} onInput={(e) => setName(e.currentTarget.value)} /></label>
      {error && <p class="bad" role="alert">{error}</p>}
      <button class="primary">Sign up</button>
    </form>
  )
}

function PasteKey() {
  const [pasted, setPasted] = useState('')
  const [error, setError] = useState('')
  const submit = async (event: Event) => {
    event.preventDefault()
    try {
      await ask('{ me { user { id } } }', {}, pasted.trim())
      signIn(pasted.trim())
      go('/')
    } catch (refusal) {
      setError((refusal as Refusal).message)
    }
  }
  return (
    <form class="stack" onSubmit={submit} aria-labelledby="with-key">
      <h2 id="with-key">With a key</h2>
      <label>API key<input required type="password" autocomplete="current-password" value={pasted} onInput={(e) => setPasted(e.currentTarget.value)} /></label>
      {error && <p class="bad" role="alert">{error}</p>}
      <button>Sign in</button>
    </form>
  )
}

function Account({ apiKey }: { apiKey: string }) {
  const [show, setShow] = useState(false)
  const mine = me.use()
  return (
    <section class="stack" aria-labelledby="account">
      <h2 id="account">Account</h2>
      <p>{mine ? <>You are <Link to={`/u/${mine.user.name}`}>{mine.user.name}</Link>.</> : 'Your key has not been checked yet.'}</p>
      <p>{withWallet ? 'Unless you sign in with a wallet, your' : 'Your'} key is the only way back to your account: keep it.</p>
      {show && <input class="bolt11" readonly value={apiKey} aria-label="API key" onFocus={(e) => e.currentTarget.select()} />}
      <p class="buttons">
        <button aria-expanded={show} onClick={() => setShow(!show)}>{show ? 'Hide the key' : 'Show the key'}</button>
        <button onClick={signOut}>Sign out</button>
      </p>
    </section>
  )
}

function Zapping() {
  const [amount, setAmount] = useState(perTap.get())
  const change = (sats: number) => {
    setAmount(sats)
    if (sats > 0) setPerTap(sats)
  }
  return (
    <section class="stack" aria-labelledby="zapping">
      <h2 id="zapping">Zapping</h2>
      <label>Sats per tap<input type="number" min={1} value={amount || ''} onInput={(e) => change(Number(e.currentTarget.value))} /></label>
    </section>
  )
}
