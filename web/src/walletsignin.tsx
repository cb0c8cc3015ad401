import { useEffect, useState } from 'preact/hooks'
import { ask, Refusal, signIn } from './api'
import { Countdown } from './countdown'
import { go } from './router'

// withWallet says whether people can sign in by their wallets.
export const withWallet = !!document.querySelector('meta[name=wallet-sign-in]')

type Challenge = { lnurl: string; secret: string; expiresAt: string }

// WalletSignIn shows a code to a wallet, and waits until the wallet's owner has confirmed (LNURL-auth).
export function WalletSignIn() {
  const [challenge, setChallenge] = useState<Challenge | null>(null)
  const [error, setError] = useState('')

  async function begin() {
    setError('')
    try {
      setChallenge((await ask<{ signIn: Challenge }>('mutation { signIn { lnurl secret expiresAt } }')).signIn)
    } catch (refusal) {
      setError((refusal as Refusal).message)
    }
  }

  useEffect(() => {
    if (!challenge) return
    let over = false
    const query = 'mutation ($secret: String!) { signedIn(secret: $secret) { key } }'
    const look = async () => {
      try {
        const { signedIn } = await ask<{ signedIn: { key: string } | null }>(query, { secret: challenge.secret })
        if (over) return
        if (signedIn) {
          signIn(signedIn.key, true)
          return go('/')
        }
      } catch (refusal) {
        if (over) return
        if (!(refusal as Refusal).unclear) {
          setChallenge(null)
          return setError((refusal as Refusal).message)
        }
      }
      if (!over) timer = setTimeout(look, 1500)
    }
    let timer = setTimeout(look, 1500)
    return () => {
      over = true
      clearTimeout(timer)
    }
  }, [challenge])

  return (
    <section class="stack" aria-labelledby="with-wallet">
      <h2 id="with-wallet">With a wallet</h2>
      {challenge ? (
        <div class="invoice">
          <p>Only confirm if your wallet names <b>{location.hostname}</b> and you see the code on this page.</p>
          <img class="qr" src={`/qr?text=${encodeURIComponent(challenge.lnurl)}`} alt="QR code to sign in with" width="260" height="260" />
          <Countdown until={challenge.expiresAt} />
          <div class="ways"><a class="button" href={`lightning:${challenge.lnurl}`}>Open a wallet</a></div>
        </div>
      ) : (
        <p><button class="primary" onClick={begin}>Show a code</button></p>
      )}
      {error && <p class="bad" role="alert">{error}</p>}
    </section>
  )
}
