import { Posts, type Sort } from './feed'
import { sats } from './format'
import { List } from './list'
import { useQuery } from './query'
import { Link, useTitle } from './router'
import { Text } from './text'

type Territory = { name: string; state: string; description: string; baseCostMsat: string; replyCostMsat: string; founder: { name: string }; paidUntil: string | null }

const fields = 'name state description baseCostMsat replyCostMsat founder { name } paidUntil'

export function TerritoryPage({ name, sort }: { name: string; sort: Sort }) {
  useTitle(name)
  const { data, error } = useQuery<{ territory: Territory | null }>(`query ($name: String!) { territory(name: $name) { ${fields} } }`, { name })
  if (error) return <p class="bad" role="alert">{error.message}</p>
  if (!data) return <p class="muted" role="status">Loading…</p>
  const t = data.territory
  if (!t) return <><h1>Not found</h1><p>There is no such territory.</p></>
  return (
    <>
      <div class="head">
        <h1>{t.name}</h1>
        {t.state !== 'STOPPED' && <Link to={`/post?territory=${t.name}`} class="button primary">Write a post</Link>}
      </div>
      <Text of={t.description} />
      <p class="muted">
        Founded by <Link to={`/u/${t.founder.name}`}>{t.founder.name}</Link>. A post costs {sats(t.baseCostMsat)}, a comment {sats(t.replyCostMsat)}.
        {t.state === 'STOPPED' && ' It is archived: nobody can write here until somebody takes it over.'}
        {t.state === 'GRACE' && ' Payment for it is due.'}
      </p>
      <Posts sort={sort} territory={t.name} />
    </>
  )
}

export function TerritoriesPage() {
  useTitle('Territories')
  return (
    <>
      <h1>Territories</h1>
      <List query={`query ($after: String) { page: territories(after: $after) { nodes { ${fields} } next } }`} empty="There are no territories yet."
        row={(t: Territory) => (
          <li key={t.name}>
            <h2><Link to={`/t/${t.name}`}>{t.name}</Link>{t.state === 'STOPPED' && <small class="tag">archived</small>}</h2>
            <p class="muted">A post costs {sats(t.baseCostMsat)}, a comment {sats(t.replyCostMsat)}.</p>
          </li>
        )} />
    </>
  )
}
