import { useState } from 'preact/hooks'
import { ask, Refusal } from './api'
import { ago } from './format'
import { touch, useQuery } from './query'
import { useTitle } from './router'
import { SignInFirst } from './settings'

type Wallet = {
  id: string
  kind: string
  label: string
  enabled: boolean
  log: { nodes: { id: string; ok: boolean; message: string; ms: number; at: string }[] }
}

// Field is a value that one kind of wallet needs to be reached.
type Field = { name: string; label: string; secret?: boolean; optional?: boolean; long?: boolean }

const kinds: Record<string, { label: string; setting: string; fields: Field[] }> = {
  LIGHTNING_ADDRESS: { label: 'Lightning address', setting: 'lightningAddress', fields: [{ name: '', label: 'name@example.org, or an LNURL' }] },
  NWC: { label: 'Nostr Wallet Connect', setting: 'nwc', fields: [{ name: '', label: 'nostr+walletconnect://… that can make invoices', secret: true }] },
  LNBITS: { label: 'LNbits', setting: 'lnbits', fields: [{ name: 'url', label: 'Address' }, { name: 'key', label: 'Invoice/read key', secret: true }] },
  LND_REST: {
    label: 'LND (REST)', setting: 'lndRest',
    fields: [{ name: 'url', label: 'https://host:8080' }, { name: 'macaroon', label: 'invoice.macaroon, in hex', secret: true }, { name: 'certificate', label: 'The text of tls.cert', optional: true, long: true }],
  },
  LND_GRPC: {
    label: 'LND (gRPC)', setting: 'lndGrpc',
    fields: [{ name: 'address', label: 'host:10009' }, { name: 'macaroon', label: 'invoice.macaroon, in hex', secret: true }, { name: 'certificate', label: 'The text of tls.cert', optional: true, long: true }],
  },
}

const walletsQuery = '{ wallets { id kind label enabled log(first: 3) { nodes { id ok message ms at } } } }'

export function ReceivingPage() {
  useTitle('Receiving wallets')
  const [error, setError] = useState('')
  return (
    <SignInFirst>
      <h1>Receiving wallets</h1>
      <p>What others zap you goes straight to the first of these wallets that gives an invoice. If none does, it is added to your credits.</p>
      {error && <p class="bad" role="alert">{error}</p>}
      <Wallets refused={setError} />
      <AddWallet />
    </SignInFirst>
  )
}

function Wallets({ refused }: { refused: (why: string) => void }) {
  const { data, error } = useQuery<{ wallets: Wallet[] }>(walletsQuery)
  if (error) return <p class="bad" role="alert">{error.message}</p>
  if (!data) return <p class="muted" role="status">Loading…</p>
  const change = (mutation: string, variables: object) => async () => {
    try {
      await ask(mutation, variables)
      refused('')
      touch()
    } catch (refusal) {
      refused((refusal as Refusal).message)
    }
  }
  const ids = data.wallets.map((w) => w.id)
  const first = (id: string) => [id, ...ids.filter((other) => other !== id)]
  return (
    <ol class="list wallets">
      {data.wallets.map((w, i) => (
        <li key={w.id}>
          <h2><bdi>{w.label || kinds[w.kind]?.label}</bdi> <small class="tag">{kinds[w.kind]?.label}{!w.enabled && ', off'}</small></h2>
          <ul class="log">{w.log.nodes.map((entry) => <li key={entry.id} class={entry.ok ? 'good' : 'bad'}><bdi>{entry.message}</bdi> <span class="muted">{entry.ms} ms, {ago(entry.at)}</span></li>)}</ul>
          <p class="buttons">
            <button onClick={change('mutation ($id: ID!, $on: Boolean!) { walletEnable(id: $id, enabled: $on) { id } }', { id: w.id, on: !w.enabled })}>{w.enabled ? 'Turn off' : 'Turn on'}</button>
            {i > 0 && <button onClick={change('mutation ($ids: [ID!]!) { walletsReorder(ids: $ids) { id } }', { ids: first(w.id) })}>Ask first</button>}
            <button onClick={change('mutation ($id: ID!) { walletRemove(id: $id) { id } }', { id: w.id })}>Remove</button>
          </p>
        </li>
      ))}
    </ol>
  )
}

function AddWallet() {
  const [kind, setKind] = useState('LIGHTNING_ADDRESS')
  const [values, setValues] = useState<Record<string, string>>({})
  const [state, setState] = useState<{ busy?: boolean; error?: string; done?: boolean }>({})
  const { setting, fields } = kinds[kind]
  const submit = async (event: Event) => {
    event.preventDefault()
    setState({ busy: true })
    const given = Object.fromEntries(fields.map((f) => [f.name, (values[f.name] ?? '').trim()]))
    try {
      await ask('mutation ($settings: WalletSettings!) { walletSave(settings: $settings) { id } }', { settings: { [setting]: '' in given ? given[''] : given } })
      setValues({})
      setState({ done: true })
      touch()
    } catch (refusal) {
      setState({ error: (refusal as Refusal).message })
    }
  }
  return (
    <form class="stack" onSubmit={submit}>
      <h2>Add a wallet</h2>
      <label>Kind
        <select value={kind} onInput={(e) => { setKind(e.currentTarget.value); setValues({}) }}>
          {Object.entries(kinds).map(([name, k]) => <option value={name}>{k.label}</option>)}
        </select>
      </label>
      {fields.map((f) => {
        const field = { value: values[f.name] ?? '', required: !f.optional, autocomplete: 'off', onInput: (e: any) => setValues({ ...values, [f.name]: e.currentTarget.value }) }
        return <label key={kind + f.name}>{f.label}{f.optional && <small> (optional)</small>}{f.long ? <textarea rows={4} {...field} /> : f.secret ? <input type="password" {...field} /> : <input {...field} />}</label>
      })}
      <p class="muted">The wallet is asked for an invoice before it is saved. Its settings are stored encrypted.</p>
      {state.error && <p class="bad" role="alert">{state.error}</p>}
      {state.done && <p class="good" role="status">Saved: it gave an invoice.</p>}
      <button class="primary" disabled={state.busy}>{state.busy ? 'Testing…' : 'Test and save'}</button>
    </form>
  )
}
