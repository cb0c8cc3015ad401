import type { ComponentChildren } from 'preact'
import { useState } from 'preact/hooks'
import { ask } from './api'
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

// List shows a list page by page. What is open of it is asked for again at intervals.
export function List<T>(props: Props<T>) {
  return <Pages key={JSON.stringify([props.query, props.variables])} {...props} />
}

function Pages<T>({ query, of, variables = {}, every = 0, empty, row, class: name = '' }: Props<T>) {
  const [pages, setPages] = useState(1)
  const within = (data: any): Page<T> => (of ? data[of] : data).page
  // All pages that are open are asked for together: so nothing falls between two of them, nor stands on both.
  const further = async (data: any) => {
    const page = within(data)
    for (let n = 1; page.next && n < pages; n++) {
      const { nodes, next } = within(await ask<any>(query, { ...variables, after: page.next }))
      page.nodes.push(...nodes)
      page.next = next
    }
    return data
  }
  const { data, error, again } = useQuery<any>(query, { ...variables, after: null }, every * pages, further)
  if (error && !data) return <p class="bad" role="alert">{error.message} <button onClick={again}>Try again</button></p>
  if (!data) return <p class="muted" role="status">Loading…</p>
  const { nodes, next } = within(data)
  if (nodes.length === 0) return <p class="muted">{empty}</p>
  return (
    <>
      <ul class={`list ${name}`}>{nodes.map(row)}</ul>
      {error && <p class="bad" role="alert">{error.message}</p>}
      {next && <button class="more" onClick={() => { setPages(pages + 1); again() }}>More</button>}
    </>
  )
}
