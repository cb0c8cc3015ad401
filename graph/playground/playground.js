'use strict';

// The operations a newcomer finds, one to a tab.
const examples = [
`# 1. Sign up (in development). The key that comes back is used in all tabs of this page until it is loaded again.
# To use another one, or none, write it under "Headers": {"Authorization": "Bearer hf_…"} or {"Authorization": ""}.
mutation SignUp {
  signUp(name: "satoshi") { key user { id name } }
}
`,
`# 2. Ask for a post. Without a balance you get an invoice: pay its bolt11 from any wallet of this network.
# You see your post at once, others when it is paid.
mutation Post {
  createPost(title: "Hello, Lightning", body: "Paid for, or it did not happen.", idempotencyKey: "my-first-post") {
    id state paymentMethod costSats
    invoice { bolt11 expiresAt }
    failure { code message }
    result { item { id title state } }
  }
}
`,
`# 3. Follow it until it has ended, while you pay the invoice. Without variables, $id and $secret are those of the last action
# that this page has seen.
subscription Follow($id: ID!, $secret: String) {
  paidActionUpdated(id: $id, secret: $secret) {
    id state changedAt deadline
    invoice { receivedMsat }
    failure { code message }
    ... on ItemCreateAction { result { item { id title state } } }
  }
}
`,
`# 4. What everybody sees.
query Items {
  items(first: 10) {
    nodes {
      id title msat upvotes commentCount author { name }
      comments(first: 3) { nodes { id body author { name } } }
    }
    next
  }
  rewardsMsat { credits sats }
}
`,
`# 5. Zap somebody else's item: write its id, which step 4 shows, for the 1. Not signed in, you can zap any, and get a secret
# too: it is yours alone.
mutation Zap {
  zap(item: "1", sats: 21) {
    id state secret paymentMethod invoice { bolt11 } failure { code message }
  }
}
`,
`# 6. Buy credits: held until they are yours, given back otherwise.
mutation BuyCredits {
  buyCredits(credits: 1000) { id state invoice { bolt11 hold } }
}
`,
`# 7. Your balances and what you have paid for.
query Mine {
  me { user { name } creditsMsat satsMsat }
  paidActions(first: 10) { nodes { id kind state costSats failure { message } } }
}
`,
`# 8. Give up an invoice.
mutation Cancel($id: ID!, $secret: String) {
  cancelInvoice(id: $id, secret: $secret) { id state failure { code message } }
}
`,
`# 9. Try again what has failed.
mutation Retry($id: ID!, $secret: String) {
  retryPaidAction(id: $id, secret: $secret) { id state attempt invoice { bolt11 } }
}
`,
];

const endpoint = new URL('../graphql', location.href);
let key; // of the last sign-up
let last = {}; // the last action seen: its id, and its secret where there is one

// What later operations of this page may need of an answer.
function remember(result) {
  for (const field of Object.values(result.data ?? {})) {
    if (typeof field?.key === 'string' && field.key.startsWith('hf_')) key = field.key;
    if (field?.id && field.state) last = { id: field.id, secret: field.secret ?? (field.id === last.id ? last.secret : undefined) };
  }
  return result;
}

function headersOf(options) {
  const headers = { ...options?.headers };
  const name = Object.keys(headers).find((h) => h.toLowerCase() === 'authorization');
  const authorization = name ? headers[name] : key && `Bearer ${key}`;
  if (name) delete headers[name];
  return authorization ? { ...headers, Authorization: authorization } : headers;
}

async function post(request, headers) {
  const response = await fetch(endpoint, {
    method: 'POST',
    headers: { ...headers, 'Content-Type': 'application/json', Accept: 'application/json' },
    body: JSON.stringify(request),
  });
  return remember(await response.json());
}

function subscribe(request, headers) {
  const url = new URL(endpoint);
  url.protocol = url.protocol.replace('http', 'ws');
  const client = graphqlWs.createClient({ url: url.href, connectionParams: headers, retryAttempts: 0 });
  return client.iterate(request);
}

function fetcher(request, options) {
  const operations = options?.documentAST?.definitions.filter((d) => d.kind === 'OperationDefinition') ?? [];
  const operation = operations.find((o) => !request.operationName || o.name?.value === request.operationName);
  const headers = headersOf(options);
  request = { ...request, variables: { ...last, ...request.variables } };
  return operation?.operation === 'subscription' ? subscribe(request, headers) : post(request, headers);
}

ReactDOM.createRoot(document.getElementById('playground')).render(
  React.createElement(GraphiQL, {
    fetcher,
    defaultEditorToolsVisibility: 'headers',
    defaultTabs: examples.map((query) => ({ query })),
    isHeadersEditorEnabled: true,
    shouldPersistHeaders: false,
  }),
);
