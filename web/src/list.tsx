import type { ComponentChildren } from 'preact'
import { useState } from 'preact/hooks'
import { ask, type Refusal } from './api'
import { useQuery } from './query'

type Page<T> = { nodes: T[]; next: string | null }
type Props<T> = {
  query: string // for a page as the alias page, with the variable $after
  of?: string // the field that contains the page, if it is not at the top
  variables?: object
  every?: number // milliseconds
  empty: string
  row: (node: T) => ComponentChildren
  class?: string
}

// List shows a list page by page. The first page is asked for again at intervals.
export function List<T>(props: Props<T>) {
  return <Pages key={JSON.stringify([props.query, props.variables])} {...props} />
}

function Pages<T>({ query, of, variables = {}, every = 0, empty, row, class: name = '' }: Props<T>) {
  const first = useQuery<any>(query, { ...variables, after: null }, every)
  const [more, setMore] = useState<Page<T> | null>(null)
  const [error, setError] = useState<Refusal | null>(null)
  if (first.error && !first.data) return <p class="bad" role="alert">{first.error.message} <button onClick={first.again}>Try again</button></p>
  if (!first.data) return <p class="muted" role="status">Loading…</p>
  const within = (data: any): Page<T> => (of ? data[of] : data).page
  const page = within(first.data)
  const nodes = [...page.nodes, ...(more?.nodes ?? [])]
  const next = more ? more.next : page.next
  const load = async () => {
    try {
      const following = within(await ask<any>(query, { ...variables, after: next }))
      setMore({ nodes: [...(more?.nodes ?? []), ...following.nodes], next: following.next })
      setError(null)
    } catch (refusal) {
      setError(refusal as Refusal)
    }
  }
  if (nodes.length === 0) return <p class="muted">{empty}</p>
  return (
    <>
      <ul class={`list ${name}`}>{nodes.map(row)}</ul>
      {error && <p class="bad" role="alert">{error.message}</p>}
      {next && <button class="more" onClick={load}>More</button>}
    </>
  )
}
