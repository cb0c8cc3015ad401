import type { ComponentChildren } from 'preact'
import { Link } from './router'

// safeURL returns an address that a click may open; null for all others.
export function safeURL(text: string): URL | null {
  const url = URL.canParse(text) ? new URL(text) : null
  return url && ['http:', 'https:'].includes(url.protocol) ? url : null
}

export function Away({ url, children }: { url: string; children?: ComponentChildren }) {
  const safe = safeURL(url)
  if (!safe) return <span>{children ?? url}</span>
  return <a href={safe.href} rel="nofollow ugc noopener" target="_blank">{children ?? url}</a>
}

const pieces = /(https?:\/\/[^\s<>"]+[^\s<>".,;:!?)\]}'])|`([^`\n]+)`|\*\*([^*\n]+)\*\*|(?<![\w@])@([a-zA-Z0-9_]{1,32})\b/g

function line(text: string): ComponentChildren[] {
  const out: ComponentChildren[] = []
  let from = 0
  for (const match of text.matchAll(pieces)) {
    out.push(text.slice(from, match.index))
    const [all, url, code, bold, name] = match
    if (url) out.push(<Away url={url} />)
    else if (code) out.push(<code>{code}</code>)
    else if (bold) out.push(<strong>{bold}</strong>)
    else out.push(<Link to={`/u/${name}`}>{all}</Link>)
    from = match.index + all.length
  }
  return [...out, text.slice(from)]
}

// Text shows what somebody wrote: paragraphs, quotes (>), links, `code`, **strong** and @names. Nothing in it is ever
// HTML.
export function Text({ of }: { of: string }) {
  const blocks = of.trim().split(/\n\s*\n/).filter(Boolean)
  return (
    <div class="text">
      {blocks.map((block) =>
        block.startsWith('>') ? <blockquote>{line(block.replace(/^> ?/gm, ''))}</blockquote> : <p>{line(block)}</p>,
      )}
    </div>
  )
}
