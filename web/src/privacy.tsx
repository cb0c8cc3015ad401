import { useState } from 'preact/hooks'
import { ask, Refusal } from './api'
import { touch, useQuery } from './query'

type Preferences = { hideInvoiceDescriptions: boolean; dropInvoicesAfterDays: number | null }

const preferencesQuery = '{ preferences { hideInvoiceDescriptions dropInvoicesAfterDays } }'
const setPreferences = 'mutation ($hide: Boolean!, $days: Int) { setPreferences(hideInvoiceDescriptions: $hide, dropInvoicesAfterDays: $days) { hideInvoiceDescriptions } }'

// Privacy is what somebody's invoices tell a wallet's custodian, and how long their texts are kept here.
export function Privacy() {
  const { data, error } = useQuery<{ preferences: Preferences }>(preferencesQuery)
  const [changes, setChanges] = useState<Partial<Preferences>>({})
  const [state, setState] = useState<{ error?: string; done?: boolean }>({})
  const wanted = { ...data?.preferences, ...changes }
  const change = (more: Partial<Preferences>) => {
    setChanges({ ...changes, ...more })
    setState({})
  }
  const submit = async (event: Event) => {
    event.preventDefault()
    try {
      await ask(setPreferences, { hide: wanted.hideInvoiceDescriptions, days: wanted.dropInvoicesAfterDays })
      setState({ done: true })
      touch()
    } catch (refusal) {
      setState({ error: (refusal as Refusal).message })
    }
  }
  return (
    <form class="stack" onSubmit={submit} aria-labelledby="privacy">
      <h2 id="privacy">Privacy</h2>
      {error && <p class="bad" role="alert">{error.message}</p>}
      {data && (
        <>
          <label class="tick"><input type="checkbox" checked={wanted.hideInvoiceDescriptions} onInput={(e) => change({ hideInvoiceDescriptions: e.currentTarget.checked })} />My invoices do not say what they pay for</label>
          <label>Days until invoices are deleted <small>(empty: they are kept)</small>
            <input type="number" min={1} max={3650} value={wanted.dropInvoicesAfterDays ?? ''} onInput={(e) => change({ dropInvoicesAfterDays: e.currentTarget.value ? Number(e.currentTarget.value) : null })} /></label>
          {state.error && <p class="bad" role="alert">{state.error}</p>}
          {state.done && <p class="good" role="status">Saved.</p>}
          <button>Save</button>
        </>
      )}
    </form>
  )
}
