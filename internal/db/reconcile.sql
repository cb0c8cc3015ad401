-- Every query here looks for what must not be, in one page of actions unless it says otherwise. They run in read-only snapshots and
-- lock nothing. What needs the history or the postings is not asked of actions up to archived_to: theirs are archived.

-- name: PlanAnew :exec
-- For the rest of the transaction: only a plan for the very actions of a page leaves out the partitions of all others. By one process: to start a second one
-- takes longer than the page, and payments want the other processors.
SELECT set_config('plan_cache_mode', 'force_custom_plan', true), set_config('max_parallel_workers_per_gather', '0', true);

-- name: ActionsToCheck :many
-- Every action, in pages.
SELECT id FROM paid_action WHERE id > @after ORDER BY id LIMIT @page;

-- name: Marks :one
-- Where the history and the postings were at a moment. Both are walked back from their ends.
SELECT coalesce((SELECT action_history.id FROM action_history WHERE action_history.at < @since ORDER BY action_history.id DESC LIMIT 1), 0)::bigint AS history,
    coalesce((SELECT posting.id FROM posting WHERE posting.at < @since ORDER BY posting.id DESC LIMIT 1), 0)::bigint AS posting;

-- name: ChangedActions :many
-- The actions that are open, and then those that moved or booked something since two marks, by when they last did, in pages.
SELECT c.id::bigint AS id, c.at::timestamptz AS at FROM (
    SELECT u.id, CASE WHEN bool_or(u.at IS NULL) THEN @since::timestamptz ELSE greatest(max(u.at), @since::timestamptz) END AS at FROM (
        SELECT paid_action.id, NULL::timestamptz AS at FROM paid_action WHERE state NOT IN ('PAID', 'FAILED', 'RETRYING')
        UNION ALL SELECT h.action_id, h.at FROM action_history h WHERE h.id > @history
        UNION ALL SELECT p.action_id, p.at FROM posting p WHERE p.id > @posting AND p.action_id IS NOT NULL
        UNION ALL SELECT r.action_id, NULL FROM relay_payment r WHERE r.stage IN ('incoming', 'in_work', 'pending_confirmation')
    ) AS u GROUP BY u.id
) AS c WHERE (c.at, c.id) > (@after_at::timestamptz, @after::bigint) ORDER BY c.at, c.id LIMIT @page;

-- name: CountsOfActions :one
-- How much there is to look at.
SELECT (SELECT count(*) FROM invoice WHERE invoice.action_id = ANY(@actions::bigint[])) AS invoices,
    (SELECT count(*) FROM relay_payment WHERE relay_payment.action_id = ANY(@actions)) AS payments,
    (SELECT count(*) FROM action_history WHERE action_history.action_id = ANY(@actions)) AS steps,
    (SELECT count(*) FROM paid_action WHERE paid_action.id = ANY(@actions) AND idempotency_key IS NOT NULL) AS keys;

-- name: BreaksOfConservation :many
-- Invariant 1, of all accounts: one whose balance differs from its postings, or a user's below zero. The first are told, all counted.
WITH posted AS (
    SELECT p.id, sum(p.msat) AS msat FROM (
        SELECT to_account AS id, msat FROM posting UNION ALL SELECT from_account, -msat FROM posting
        UNION ALL SELECT account_id, archived_balance.msat FROM archived_balance) AS p GROUP BY p.id
), held AS (
    SELECT h.id, sum(h.msat) AS msat FROM (
        SELECT account.id, account.balance AS msat FROM account UNION ALL SELECT account_id, balance_delta.msat FROM balance_delta) AS h
    GROUP BY h.id
)
SELECT coalesce(posted.id, held.id)::bigint AS account, coalesce(posted.msat, 0)::bigint AS posted, coalesce(held.msat, 0)::bigint AS held,
    count(*) OVER ()::bigint AS total
FROM posted FULL JOIN held ON held.id = posted.id
WHERE coalesce(posted.msat, 0) <> coalesce(held.msat, 0) OR (coalesce(posted.id, held.id) >= 16 AND coalesce(held.msat, 0) < 0)
ORDER BY 1 LIMIT @page;

-- name: BreaksOfTotals :many
-- Invariant 1, without the postings: an asset of which more is held than was ever paid in, or less. Transfers cannot change the sum.
SELECT (h.id & 1)::bigint AS asset, sum(h.msat)::bigint AS msat FROM (
    SELECT account.id, account.balance AS msat FROM account UNION ALL SELECT account_id, balance_delta.msat FROM balance_delta) AS h
GROUP BY 1 HAVING sum(h.msat) <> 0 ORDER BY 1;

-- name: UsersBelowZero :many
SELECT account.id, account.balance, count(*) OVER ()::bigint AS total FROM account WHERE account.id >= 16 AND account.balance < 0 ORDER BY account.id LIMIT @page;

-- name: ReceivedByNobody :many
-- Invariant 1: what an account has received that does not exist. Nobody can spend it, and it is never folded in.
SELECT d.account_id, d.msat, count(*) OVER ()::bigint AS total FROM (SELECT account_id, sum(msat)::bigint AS msat FROM balance_delta GROUP BY account_id) AS d
WHERE NOT EXISTS (SELECT FROM account WHERE account.id = d.account_id) ORDER BY d.account_id LIMIT @page;

-- name: MissingAccounts :many
-- Invariant 1: an account of the system that is not there or, of all users, one of theirs. The first are told, all counted.
SELECT due.id::bigint AS id, count(*) OVER ()::bigint AS total FROM (
    SELECT unnest(@system::bigint[]) AS id
    UNION ALL SELECT usr.id * 16 + kind.n FROM usr CROSS JOIN (VALUES (0), (1)) AS kind (n) WHERE @users::boolean) AS due
WHERE NOT EXISTS (SELECT FROM account WHERE account.id = due.id) ORDER BY 1 LIMIT @page;

-- name: UnusedAccounts :many
-- Invariant 1: an account of the system to which nothing is booked, and in which something is.
SELECT h.id, sum(h.msat)::bigint AS msat FROM (
    SELECT account.id, account.balance AS msat FROM account UNION ALL SELECT account_id, balance_delta.msat FROM balance_delta) AS h
WHERE h.id < 16 AND h.id <> ALL(@system::bigint[]) GROUP BY h.id HAVING sum(h.msat) <> 0 ORDER BY h.id;

-- name: SetAside :one
-- Invariant 1: what the payments that are not at their end hold of what was set aside for them, as postings of their actions or of the action that a withdrawal
-- pays inside. What has ended holds nothing. One by one, as BreaksOfKeys.
SELECT coalesce(sum((SELECT sum(CASE WHEN p.to_account = 6 THEN p.msat ELSE -p.msat END) FROM posting p
    WHERE p.action_id = part.id AND (p.from_account = 6 OR p.to_account = 6))), 0)::bigint
FROM (
    SELECT r.action_id, r.inside_id FROM relay_payment r JOIN paid_action a ON a.id = r.action_id
    WHERE r.stage IN ('incoming', 'in_work', 'pending_confirmation') AND a.state NOT IN ('FAILED', 'RETRYING')
    UNION SELECT r.action_id, r.inside_id FROM paid_action a JOIN relay_payment r ON r.action_id = a.id WHERE a.state NOT IN ('PAID', 'FAILED', 'RETRYING')
) AS under_way CROSS JOIN LATERAL unnest(ARRAY[under_way.action_id, under_way.inside_id]) AS part (id);

-- name: CountAccounts :one
SELECT count(*) FROM account;

-- name: BreaksOfPayment :many
-- Invariant 2: a PAID action that was not paid exactly once from exactly one source, anything else that was paid, and what did not end
-- exactly once.
WITH source AS (
    -- The source is the payer's own account or the node's; the loss account where the payer's payment was lost; what a withdrawal
    -- here has set aside, where it pays another action's invoice. What else passes through the system's accounts is none.
    -- What an operator has given back to it was not taken, and an account that has all of it back is none either.
    SELECT net.action_id, sum(net.msat) AS msat, count(*) AS accounts, max(net.account) AS account FROM (
        SELECT p.action_id, CASE way.sign WHEN 1 THEN p.from_account ELSE p.to_account END AS account, sum(way.sign * p.msat) AS msat
        FROM posting p CROSS JOIN unnest(ARRAY[1, -1]) AS way (sign)
        WHERE p.action_id = ANY(@actions::bigint[]) AND CASE way.sign
            WHEN 1 THEN p.from_account >= 16 OR p.from_account = 0 OR (p.from_account = 8 AND p.to_account <> 0)
                OR (p.from_account = 6 AND EXISTS (SELECT FROM relay_payment WHERE inside_id = p.action_id AND preimage IS NOT NULL))
            ELSE p.reason = 'given back by hand' AND (p.to_account >= 16 OR p.to_account = 0) END
        GROUP BY 1, 2
    ) AS net WHERE net.msat <> 0 GROUP BY net.action_id
), ended AS (
    SELECT action_history.action_id, count(*) AS times FROM action_history
    WHERE action_history.action_id = ANY(@actions) AND to_state IN ('PAID', 'FAILED') GROUP BY action_history.action_id
), found AS (
    SELECT a.id, a.state, a.method,
        (CASE WHEN a.flow = 'OUTGOING' OR (a.state = 'PAID' AND a.flow = 'BALANCE') THEN a.cost_msat
            WHEN a.state = 'PAID' THEN coalesce(invoice.received_msat, 0) ELSE 0 END)::bigint AS due,
        ((a.flow = 'OUTGOING' OR a.state = 'PAID') AND a.cost_msat > 0)::boolean AS pays,
        (a.state IN ('PAID', 'FAILED', 'RETRYING'))::boolean AS over,
        coalesce(source.msat, 0)::bigint AS posted, coalesce(source.accounts, 0)::bigint AS sources, coalesce(ended.times, 0)::bigint AS ends,
        coalesce(source.account, 0)::bigint AS account,
        -- ... which is not that of the payer's that the method says, or is a user's though a node was paid
        coalesce(CASE WHEN a.flow IN ('BALANCE', 'OUTGOING') THEN source.account <> a.payer_id * 16 + (a.method = 'FEE_CREDIT')::int
            ELSE source.account >= 16 END, false)::boolean AS others
    FROM paid_action a LEFT JOIN source ON source.action_id = a.id LEFT JOIN ended ON ended.action_id = a.id
    LEFT JOIN invoice ON invoice.action_id = a.id
    WHERE a.id = ANY(@actions)
)
SELECT * FROM found WHERE posted <> due OR sources <> pays::int OR ends <> over::int OR others ORDER BY id;

-- name: BreaksOfReturns :many
-- Invariant 2: what is the payer's own and did not all go to them: what was overpaid or bought, and what was set aside for a withdrawal and has not left. What an
-- operator has put right counts as theirs.
SELECT own.id, own.due::bigint AS due, own.got::bigint AS got FROM (
    SELECT a.id, coalesce(sum(p.msat) FILTER (WHERE p.reason <> 'put right by hand'), 0) AS due,
        coalesce(sum(p.msat) FILTER (WHERE p.to_account / 16 = a.payer_id), 0) AS got
    FROM posting p JOIN paid_action a ON a.id = p.action_id
    WHERE p.action_id = ANY(@actions::bigint[]) AND a.payer_id IS NOT NULL AND ((p.reason = 'overpaid' AND p.to_account <> 2)
        OR (a.kind = 'BUY_CREDITS' AND p.from_account = 1)
        OR (a.flow = 'OUTGOING' AND p.from_account = 6 AND (p.to_account <> 0 OR a.state <> 'PAID'))
        OR p.reason = 'put right by hand')
    GROUP BY a.id
) AS own WHERE own.got < own.due ORDER BY own.id;

-- name: BreaksOfEffects :many
-- Invariant 3: what is wrong with the rows that actions have made. The one place that has the table of each: a row's state, whether its user is to be the payer,
-- the item that it is or is about, as the action's result names it, and its price. What is NULL is not compared. So a row
--   differs:      it counts though its action was not paid, or the other way round
--   other_amount: it is not worth the action's price or, of others than a BOOST, which cost more than the boost that they make too, what their arguments say
--   others:       it is somebody else's than the payer's
--   other_item:   it is, or is about, another item than the result names; of an action that made two items one at least is the one.
WITH found AS (
    SELECT e.what, e.action_id, e.effect, a.state, e.msat, a.cost_msat, e.item_id, a.result->>'item' AS named,
        ((e.effect = 'PAID') <> (a.state = 'PAID') OR (e.effect = 'FAILED') <> (a.state IN ('FAILED', 'RETRYING'))) AS differs,
        (e.msat <> CASE WHEN e.what = 'boost' AND a.kind <> 'BOOST' THEN (a.args->>'boost')::bigint * 1000 ELSE a.cost_msat END) AS other_amount,
        (e.owned AND e.user_id IS DISTINCT FROM a.payer_id) AS others,
        (e.item_id IS NOT NULL AND e.item_id::text IS DISTINCT FROM a.result->>'item'
            AND NOT (e.what = 'item' AND EXISTS (SELECT FROM item o WHERE o.action_id = e.action_id AND o.id::text = a.result->>'item' OFFSET 0))) AS other_item
    FROM (
        SELECT 'item' AS what, action_id, item.state AS effect, true AS owned, author_id AS user_id, item.id AS item_id, NULL::bigint AS msat FROM item
        UNION ALL SELECT 'zap', action_id, zap.state, true, zap.user_id, zap.item_id, zap.msat FROM zap
        UNION ALL SELECT 'donation', action_id, donation.state, true, donation.user_id, NULL, donation.msat FROM donation
        UNION ALL SELECT 'poll vote', action_id, poll_vote.state, true, poll_vote.user_id, poll_vote.item_id, NULL FROM poll_vote
        UNION ALL SELECT 'boost', action_id, boost.state, true, boost.user_id, boost.item_id, boost.msat FROM boost
        UNION ALL SELECT 'bounty', action_id, 'PAID', false, NULL, NULL, NULL FROM bounty_payment
        UNION ALL SELECT 'edit', action_id, 'PENDING', false, NULL, NULL, NULL FROM item_edit
        UNION ALL SELECT 'upload', action_id, CASE WHEN paid_at IS NULL THEN 'PENDING' ELSE 'PAID' END::item_state, false, NULL, NULL, NULL FROM upload
        UNION ALL SELECT 'reservation of a territory', pending_action, 'PENDING', false, NULL, NULL, NULL FROM territory
        UNION ALL SELECT 'transfer of a territory', action_id, 'PAID', false, NULL, NULL, NULL FROM territory_transfer
        UNION ALL SELECT 'redeemed invite', action_id, 'PAID', false, NULL, NULL, NULL FROM invite_redemption
    ) AS e JOIN paid_action a ON a.id = e.action_id
    WHERE e.action_id = ANY(@actions::bigint[]) AND a.id = ANY(@actions) -- said twice: else the plan may read all actions
)
SELECT what::text AS what, action_id::bigint AS action_id, effect::text AS effect, state, coalesce(msat, 0)::bigint AS msat, cost_msat,
    coalesce(item_id, 0)::bigint AS item_id, coalesce(named, '')::text AS named,
    differs::boolean AS differs, coalesce(other_amount, false)::boolean AS other_amount, others::boolean AS others, other_item::boolean AS other_item
FROM found WHERE differs OR other_amount OR others OR other_item ORDER BY 2, 1;

-- name: MissingEffects :many
-- Invariant 3: what was paid and is not there: never performed, or without the row that its kind makes. One by one, as BreaksOfKeys.
SELECT a.id, a.kind FROM paid_action a
WHERE a.id = ANY(@actions::bigint[]) AND a.state = 'PAID' AND ((a.flow <> 'OUTGOING' AND a.result IS NULL) OR CASE a.kind
    WHEN 'ITEM_CREATE' THEN NOT EXISTS (SELECT FROM item WHERE item.action_id = a.id OFFSET 0)
    WHEN 'ZAP' THEN NOT EXISTS (SELECT FROM zap WHERE zap.action_id = a.id OFFSET 0)
    WHEN 'DOWN_ZAP' THEN NOT EXISTS (SELECT FROM zap WHERE zap.action_id = a.id OFFSET 0)
    WHEN 'DONATE' THEN NOT EXISTS (SELECT FROM donation WHERE donation.action_id = a.id OFFSET 0)
    WHEN 'POLL_VOTE' THEN NOT EXISTS (SELECT FROM poll_vote WHERE poll_vote.action_id = a.id OFFSET 0)
    WHEN 'BOOST' THEN NOT EXISTS (SELECT FROM boost WHERE boost.action_id = a.id OFFSET 0)
    WHEN 'TERRITORY_UNARCHIVE' THEN NOT EXISTS (SELECT FROM territory_transfer WHERE territory_transfer.action_id = a.id OFFSET 0)
    WHEN 'INVITE_GIFT' THEN NOT EXISTS (SELECT FROM invite_redemption WHERE invite_redemption.action_id = a.id OFFSET 0)
    WHEN 'BUY_CREDITS' THEN a.id > @archived_to::bigint AND NOT EXISTS (SELECT FROM posting WHERE posting.action_id = a.id AND from_account = 1 OFFSET 0)
    WHEN 'WITHDRAW' THEN NOT EXISTS (SELECT FROM relay_payment WHERE relay_payment.action_id = a.id OFFSET 0)
    ELSE false END
    OR (a.kind LIKE 'TERRITORY\_%' AND NOT EXISTS (SELECT FROM territory WHERE territory.name = a.result->>'territory' AND territory.state <> 'PENDING' OFFSET 0))
    OR (a.kind IN ('ITEM_CREATE', 'ITEM_UPDATE') AND (jsonb_array_length(a.args->'uploads') <> (SELECT count(*) FROM upload WHERE upload.action_id = a.id)
        OR ((a.args->>'boost')::bigint > 0 AND NOT EXISTS (SELECT FROM boost WHERE boost.action_id = a.id OFFSET 0)))))
ORDER BY a.id;

-- name: BreaksOfInvoices :many
-- Invariant 3: an invoice that is not over the price of its action.
SELECT invoice.action_id, invoice.amount_msat, paid_action.cost_msat FROM invoice JOIN paid_action ON paid_action.id = invoice.action_id
WHERE invoice.action_id = ANY(@actions::bigint[]) AND invoice.amount_msat <> paid_action.cost_msat ORDER BY 1;

-- name: BreaksOfInvites :many
-- Invariant 3: an invite of one of the actions that counts other uses than there are people who have redeemed it. It allows a thousand at most.
SELECT i.used, r.action_id, r.redeemed FROM (
    SELECT DISTINCT ON (n.code) n.code, n.action_id, (SELECT count(*) FROM invite_redemption o WHERE o.code = n.code) AS redeemed
    FROM invite_redemption n WHERE n.action_id = ANY(@actions::bigint[]) ORDER BY n.code, n.action_id
) AS r JOIN invite i ON i.code = r.code WHERE i.used <> r.redeemed ORDER BY r.action_id;

-- name: InvitesOfNobody :many
-- Invariant 3, of all invites: one that counts uses though nobody has redeemed it, which no action tells. The first are told, all counted.
SELECT invite.id, invite.used, count(*) OVER ()::bigint AS total FROM invite
WHERE invite.used > 0 AND NOT EXISTS (SELECT FROM invite_redemption n WHERE n.code = invite.code) ORDER BY invite.id LIMIT @page;

-- name: UnmarkedBounties :many
-- Invariant 3: a bounty that its owner has zapped an answer with, and that does not count as paid. One by one, as BreaksOfKeys.
SELECT z.action_id, b.id AS item_id FROM unnest(@actions::bigint[]) AS n (id)
CROSS JOIN LATERAL (SELECT zap.action_id, zap.item_id, zap.user_id FROM zap
    WHERE zap.action_id = n.id AND zap.state = 'PAID' AND NOT zap.down AND zap.user_id IS NOT NULL OFFSET 0) AS z
CROSS JOIN LATERAL (SELECT item.ancestors[1] AS root FROM item WHERE item.id = z.item_id AND item.parent_id IS NOT NULL OFFSET 0) AS c
CROSS JOIN LATERAL (SELECT item.id, item.bounty_msat FROM item WHERE item.id = c.root AND item.kind = 'BOUNTY' AND item.author_id = z.user_id OFFSET 0) AS b
CROSS JOIN LATERAL (SELECT t.msat FROM zap_total t WHERE t.item_id = z.item_id AND t.user_id = z.user_id AND NOT t.down OFFSET 0) AS t
WHERE t.msat >= b.bounty_msat AND NOT EXISTS (SELECT FROM bounty_payment p WHERE p.item_id = b.id)
ORDER BY z.action_id;

-- name: BreaksOfVotesInPolls :many
-- Invariant 3: a paid vote for another option than its payer chose, or for one of another poll. One by one, as BreaksOfKeys.
SELECT v.action_id, v.option_id FROM unnest(@actions::bigint[]) AS n (id)
CROSS JOIN LATERAL (SELECT p.action_id, p.option_id, p.item_id FROM poll_vote p WHERE p.action_id = n.id AND p.state = 'PAID' OFFSET 0) AS v
CROSS JOIN LATERAL (SELECT a.args FROM paid_action a WHERE a.id = n.id OFFSET 0) AS a
WHERE a.args->>'option' IS DISTINCT FROM v.option_id::text OR NOT EXISTS (SELECT FROM poll_option o WHERE o.id = v.option_id AND o.item_id = v.item_id OFFSET 0)
ORDER BY v.action_id;

-- name: BreaksOfVotes :many
-- Invariant 3: by votes the rewards of a day are divided, so each is of a paid zap of somebody known, for its item and that one's author, the way the zap went; and
-- each such zap has one. Where the rewards are not divided yet it is also of the day, and in the asset, in which the zap was paid: of votes from before nobody
-- noted the asset once (0067). One by one, as BreaksOfKeys.
SELECT a.id FROM unnest(@actions::bigint[]) AS n (id)
CROSS JOIN LATERAL (SELECT p.id, p.state, p.method, p.changed_at FROM paid_action p WHERE p.id = n.id OFFSET 0) AS a
LEFT JOIN LATERAL (SELECT zap.user_id, zap.item_id, zap.down FROM zap WHERE zap.action_id = n.id OFFSET 0) AS z ON true
LEFT JOIN LATERAL (SELECT o.action_id, o.item_id, o.author_id, o.micros, o.at, o.credits FROM vote_event o WHERE o.action_id = n.id OFFSET 0) AS v ON true
LEFT JOIN LATERAL (SELECT item.author_id FROM item WHERE item.id = v.item_id OFFSET 0) AS i ON true
CROSS JOIN (SELECT coalesce((max(day) + 1)::timestamp AT TIME ZONE 'UTC', '-infinity') AS until FROM reward_day) AS divided
WHERE CASE WHEN v.action_id IS NULL THEN a.state = 'PAID' AND z.user_id IS NOT NULL
    ELSE a.state <> 'PAID' OR z.user_id IS NULL OR v.item_id <> z.item_id OR v.author_id IS DISTINCT FROM i.author_id OR (v.micros <> 0 AND (v.micros < 0) <> z.down)
        OR (greatest(v.at, a.changed_at) >= divided.until AND (v.at <> a.changed_at OR v.credits <> (a.method = 'FEE_CREDIT'))) END
ORDER BY a.id;

-- name: ItemsTwice :many
-- Invariant 3: actions that have made more than one item. Of what else an action does, a key allows one.
SELECT item.action_id, count(*) AS items FROM item WHERE item.action_id = ANY(@actions::bigint[]) GROUP BY item.action_id HAVING count(*) > 1 ORDER BY 1;

-- name: BreaksOfCounters :many
-- Invariant 3, of all items: a counter, with what is not folded in yet, that is not what its zaps, votes, boosts and comments come to; and of all options of polls. The
-- first are told, all counted. Each table is read once.
WITH by_person AS MATERIALIZED (
    SELECT zap.item_id, zap.user_id, zap.down, sum(zap.msat) AS msat, sum(zap.msat) FILTER (WHERE paid_action.method = 'FEE_CREDIT') AS credit
    FROM zap JOIN paid_action ON paid_action.id = zap.action_id WHERE zap.state = 'PAID' GROUP BY zap.item_id, zap.user_id, zap.down
), zapped AS MATERIALIZED (
    SELECT p.item_id, sum(p.msat) FILTER (WHERE NOT p.down) AS up, sum(p.msat) FILTER (WHERE p.down) AS down, sum(p.credit) FILTER (WHERE NOT p.down) AS credit
    FROM by_person p GROUP BY p.item_id
), totals AS (
    SELECT t.item_id, count(*) FILTER (WHERE NOT t.down) AS ups, count(*) FILTER (WHERE t.down) AS downs FROM zap_total t GROUP BY t.item_id
), voted AS (
    SELECT v.item_id, sum(v.micros) AS micros FROM vote_event v GROUP BY v.item_id
), boosted AS (
    SELECT b.item_id, sum(b.msat) AS msat FROM boost b WHERE b.state = 'PAID' AND b.expired_at IS NULL GROUP BY b.item_id
), below AS (
    SELECT above.id, count(*) AS comments, sum(coalesce(zapped.up, 0)) AS msat
    FROM item c CROSS JOIN LATERAL unnest(c.ancestors) AS above (id) LEFT JOIN zapped ON zapped.item_id = c.id
    WHERE c.state = 'PAID' AND c.parent_id IS NOT NULL GROUP BY above.id
), unfolded AS (
    SELECT d.item_id, sum(d.msat) AS msat, sum(d.credit_msat) AS credit_msat, sum(d.down_msat) AS down_msat, sum(d.comment_msat) AS comment_msat, sum(d.boost_msat) AS boost_msat, sum(d.upvotes) AS upvotes,
        sum(d.downvotes) AS downvotes, sum(d.vote_micros) AS vote_micros, sum(d.comments) AS comments
    FROM item_delta d GROUP BY d.item_id
), found AS (
    SELECT item.id, c.item_id IS NULL AS none, n.counter, n.counted, n.happened
    FROM item LEFT JOIN item_count c ON c.item_id = item.id LEFT JOIN unfolded u ON u.item_id = item.id LEFT JOIN zapped ON zapped.item_id = item.id
    LEFT JOIN totals ON totals.item_id = item.id LEFT JOIN voted ON voted.item_id = item.id LEFT JOIN boosted ON boosted.item_id = item.id
    LEFT JOIN below ON below.id = item.id
    CROSS JOIN LATERAL (SELECT unnest(ARRAY['msat', 'credit_msat', 'down_msat', 'comment_msat', 'boost_msat', 'upvotes', 'downvotes', 'vote_micros', 'comments']) AS counter,
        unnest(ARRAY[coalesce(c.msat, 0) + coalesce(u.msat, 0), coalesce(c.credit_msat, 0) + coalesce(u.credit_msat, 0),
            coalesce(c.down_msat, 0) + coalesce(u.down_msat, 0), coalesce(c.comment_msat, 0) + coalesce(u.comment_msat, 0),
            coalesce(c.boost_msat, 0) + coalesce(u.boost_msat, 0), coalesce(c.upvotes, 0) + coalesce(u.upvotes, 0), coalesce(c.downvotes, 0) + coalesce(u.downvotes, 0),
            coalesce(c.vote_micros, 0) + coalesce(u.vote_micros, 0), coalesce(c.comments, 0) + coalesce(u.comments, 0)]) AS counted,
        unnest(ARRAY[coalesce(zapped.up, 0), coalesce(zapped.credit, 0), coalesce(zapped.down, 0), coalesce(below.msat, 0), coalesce(boosted.msat, 0), coalesce(totals.ups, 0),
            coalesce(totals.downs, 0), coalesce(voted.micros, 0), coalesce(below.comments, 0)]) AS happened) AS n
    UNION ALL
    SELECT coalesce(t.item_id, p.item_id), false, 'zap_total of user ' || coalesce(t.user_id, p.user_id), coalesce(t.msat, 0), coalesce(p.msat, 0)
    FROM zap_total t FULL JOIN (SELECT * FROM by_person WHERE by_person.user_id IS NOT NULL) AS p ON p.item_id = t.item_id AND p.user_id = t.user_id AND p.down = t.down
    UNION ALL
    SELECT o.item_id, false, 'votes for option ' || o.id, o.votes, count(v.action_id)
    FROM poll_option o LEFT JOIN poll_vote v ON v.option_id = o.id AND v.state = 'PAID' AND v.counted GROUP BY o.id
)
SELECT found.id, found.counter::text AS counter, found.counted::bigint AS counted, found.happened::bigint AS happened, count(*) OVER ()::bigint AS total
FROM found WHERE found.counted <> found.happened OR (found.none AND found.counter = 'msat') ORDER BY 1, 2 LIMIT @page;

-- name: BreaksOfListing :many
-- Invariant 3, of all items: one by whose counters' row feeds do not choose as the item is (follow_item). The first are told, all counted.
SELECT item.id, count(*) OVER ()::bigint AS total FROM item JOIN item_count c ON c.item_id = item.id
WHERE c.listed <> (item.parent_id IS NULL AND item.kind <> 'BIO' AND item.state = 'PAID' AND item.deleted_at IS NULL)
    OR c.territory IS DISTINCT FROM item.territory OR c.created_at <> item.created_at
ORDER BY item.id LIMIT @page;

-- name: LostFiles :many
-- Invariant 3, of all files: one whose content is gone. The first are told, all counted.
SELECT upload.id, count(*) OVER ()::bigint AS total FROM upload
WHERE NOT EXISTS (SELECT FROM upload_data WHERE upload_data.upload_id = upload.id) ORDER BY upload.id LIMIT @page;

-- name: BreaksOfTerritories :many
-- Invariant 3, of all territories: one that nobody looks at once what was paid for it is over, or its grace. The first are told, all counted.
SELECT territory.name, territory.state, count(*) OVER ()::bigint AS total FROM territory
WHERE territory.bill_at > CASE territory.state WHEN 'ACTIVE' THEN territory.paid_until ELSE territory.grace_until END ORDER BY territory.name LIMIT @page;

-- name: BreaksOfHashes :many
-- Invariant 4: one payment hash on two invoices.
SELECT least(i.action_id, o.action_id)::bigint AS first, greatest(i.action_id, o.action_id)::bigint AS last
FROM invoice i JOIN invoice o ON o.payment_hash = i.payment_hash AND o.action_id <> i.action_id
WHERE i.action_id = ANY(@actions::bigint[]) ORDER BY 1;

-- name: ClaimsOfHashes :many
-- Invariant 4: a hash of which more than one claim may have been paid.
SELECT r.action_id, count(*) AS claims, count(DISTINCT a.node) AS nodes
FROM relay_payment r JOIN relay_payment s ON s.payment_hash = r.payment_hash JOIN relay_attempt a ON a.payment_id = s.id
WHERE r.action_id = ANY(@actions::bigint[]) AND (a.outcome IS NULL OR a.outcome = 'PAID')
GROUP BY r.action_id HAVING count(*) > 1 ORDER BY 1;

-- name: UnnotedHashes :many
-- Invariant 4: somebody else's hash that is not noted as what it is used for, and so could be used for the other thing too.
SELECT r.action_id, 'WITHDRAWN'::text AS used FROM relay_payment r
WHERE r.action_id = ANY(@actions::bigint[]) AND r.receiver_id IS NULL AND r.inside_id IS NULL
    AND NOT EXISTS (SELECT FROM foreign_hash f WHERE f.payment_hash = r.payment_hash AND f.used = 'WITHDRAWN')
UNION ALL SELECT i.action_id, 'WRAPPED' FROM inner_invoice n JOIN invoice i ON i.action_id = n.action_id
WHERE n.action_id = ANY(@actions) AND NOT EXISTS (SELECT FROM foreign_hash f WHERE f.payment_hash = i.payment_hash AND f.used = 'WRAPPED')
ORDER BY 1;

-- name: BreaksOfRelay :many
-- Invariants 2, 4, 5 and 9, as far as they are about one outgoing payment and its action.
WITH found AS (
    SELECT r.action_id, r.stage, a.state, coalesce(r.node, '') AS node,
        -- 4: shares its hash with another payment that was or may be made, or with an invoice of ours that it does not belong to
        EXISTS (SELECT FROM relay_payment o WHERE o.payment_hash = r.payment_hash AND o.id <> r.id AND o.stage <> 'failed' AND r.stage <> 'failed') AS twice,
        EXISTS (SELECT FROM invoice i WHERE i.payment_hash = r.payment_hash AND i.action_id <> r.action_id AND i.action_id IS DISTINCT FROM r.inside_id) AS foreign_invoice,
        -- 5: made while its action does not say so; given up, or not made yet, while its action goes on; not given up though its action has
        (r.preimage IS NOT NULL AND a.state NOT IN ('FORWARDED', 'PAID') AND r.inside_id IS NULL) AS unsaid,
        (a.state IN ('FORWARDED', 'PAID') AND r.preimage IS NULL) AS given_up,
        (r.stage <> 'failed' AND a.state IN ('FAILED', 'RETRYING', 'CANCELING', 'FAILED_FORWARD')) AS live,
        (r.preimage IS NOT NULL AND sha256(r.preimage) <> r.payment_hash) AS wrong_preimage,
        (a.flow = 'WRAPPED' AND a.state = 'FORWARDED' AND coalesce(c.height > a.deadline_height, false)) AS late,
        -- 9: not over what it was accepted for: the receiver's invoice, or what the payer set aside; a fee that is not the one that was booked; made, and no claim says so
        (r.inside_id IS NULL AND CASE a.flow WHEN 'OUTGOING' THEN r.amount_msat + r.budget_msat <> a.cost_msat
            ELSE EXISTS (SELECT FROM inner_invoice n WHERE n.action_id = r.action_id AND (n.amount_msat <> r.amount_msat OR n.budget_msat <> r.budget_msat
                OR n.bolt11 <> r.bolt11 OR n.receiver_id IS DISTINCT FROM r.receiver_id)) END) AS other_terms,
        (r.stage = 'completed' AND a.id > @archived_to AND greatest(r.budget_msat - r.fee_msat, 0) <> coalesce((
            SELECT sum(p.msat) FROM posting p WHERE p.action_id = r.action_id AND p.from_account = 6 AND p.reason = 'unused routing fee'), 0)) AS other_fee,
        (r.preimage IS NOT NULL AND r.inside_id IS NULL
            AND NOT EXISTS (SELECT FROM relay_attempt t WHERE t.payment_id = r.id AND t.outcome = 'PAID')) AS unclaimed,
        -- 9: in work, and no claim says at which node; claimed, and not in work; or at another node than the one of its claim
        (r.inside_id IS NULL AND ((r.stage = 'in_work') <> EXISTS (SELECT FROM relay_attempt t WHERE t.payment_id = r.id AND t.outcome IS NULL OFFSET 0)
            OR EXISTS (SELECT FROM relay_attempt t WHERE t.payment_id = r.id AND (t.outcome IS NULL OR t.outcome = 'PAID') AND t.node IS DISTINCT FROM r.node OFFSET 0))) AS other_claim,
        (a.flow = 'WRAPPED' AND a.state = 'PAID' AND a.id > @archived_to::bigint
            AND EXISTS (SELECT FROM action_history h WHERE h.action_id = a.id AND h.to_state = 'PAID' AND h.fact IN ('INCOMING_LOST', 'WRITTEN_OFF'))
            AND NOT EXISTS (SELECT FROM posting p WHERE p.action_id = a.id AND p.from_account = 8 AND p.to_account <> 0)) AS unbooked_loss,
        -- 2 and 9: set aside for it, and neither spent nor back though it is at its end
        CASE WHEN r.inside_id IS NULL AND a.id > @archived_to
                AND (r.stage = 'completed' OR a.state IN ('FAILED', 'RETRYING') OR (a.flow = 'OUTGOING' AND a.state = 'PAID')) THEN coalesce((
            SELECT sum(CASE WHEN p.to_account = 6 THEN p.msat ELSE -p.msat END) FROM posting p
            WHERE p.action_id = r.action_id AND (p.from_account = 6 OR p.to_account = 6)), 0) ELSE 0 END AS held
    FROM relay_payment r JOIN paid_action a ON a.id = r.action_id
    LEFT JOIN invoice ON invoice.action_id = r.action_id LEFT JOIN node_cursor c ON c.node = invoice.node
    WHERE r.action_id = ANY(@actions::bigint[])
)
SELECT action_id, stage, state, node, twice::boolean AS twice, foreign_invoice::boolean AS foreign_invoice, unsaid::boolean AS unsaid,
    given_up::boolean AS given_up, live::boolean AS live, wrong_preimage::boolean AS wrong_preimage, late::boolean AS late,
    unbooked_loss::boolean AS unbooked_loss, other_terms::boolean AS other_terms, other_fee::boolean AS other_fee, unclaimed::boolean AS unclaimed,
    other_claim::boolean AS other_claim, held::bigint AS held_msat
FROM found WHERE twice OR foreign_invoice OR unsaid OR given_up OR live OR wrong_preimage OR late OR unbooked_loss OR other_terms OR other_fee OR unclaimed OR other_claim
    OR held <> 0
ORDER BY action_id;

-- name: LostRecords :many
-- Invariant 9: what is not there of an action that goes through a node, so that the node is not asked about it. One by one, as BreaksOfKeys.
SELECT a.id, a.state, 'invoice'::text AS what FROM paid_action a
WHERE a.id = ANY(@actions::bigint[]) AND a.flow IN ('OPTIMISTIC', 'PESSIMISTIC', 'WRAPPED') AND (SELECT i.action_id FROM invoice i WHERE i.action_id = a.id) IS NULL
UNION ALL SELECT a.id, a.state, 'outgoing payment' FROM paid_action a
WHERE a.id = ANY(@actions) AND (a.flow = 'OUTGOING' OR (a.flow = 'WRAPPED' AND a.state IN ('FORWARDING', 'FORWARDED', 'FAILED_FORWARD', 'PAID')))
    AND (SELECT r.action_id FROM relay_payment r WHERE r.action_id = a.id) IS NULL
UNION ALL SELECT a.id, a.state, 'receiver''s invoice' FROM paid_action a
WHERE a.id = ANY(@actions) AND a.flow = 'WRAPPED' AND (SELECT n.action_id FROM inner_invoice n WHERE n.action_id = a.id) IS NULL
ORDER BY 1;

-- name: WrongPreimages :many
-- Invariant 9: an invoice of ours without its preimage, or with another: its payment cannot be taken. Of a wrapped one it is known once the receiver was paid.
SELECT i.action_id, a.state, i.node FROM invoice i JOIN paid_action a ON a.id = i.action_id
WHERE i.action_id = ANY(@actions::bigint[])
    AND CASE WHEN i.preimage IS NULL THEN a.flow <> 'WRAPPED' OR a.state IN ('FORWARDED', 'PAID') ELSE sha256(i.preimage) <> i.payment_hash END
ORDER BY 1;

-- name: BreaksOfHistory :many
-- Invariant 6: a step that the machine does not have, a gap between two steps, or an end other than the row's state.
SELECT h.action_id, coalesce(h.from_state::text, '')::text AS from_state, h.to_state, h.state,
    (NOT action_step_allowed(h.flow, coalesce(h.from_state::text, ''), h.to_state::text))::boolean AS strange,
    (h.before IS DISTINCT FROM h.from_state)::boolean AS gap, (h.next IS NULL AND h.to_state <> h.state)::boolean AS differs
FROM (
    SELECT action_history.action_id, action_history.from_state, action_history.to_state,
        lag(action_history.to_state) OVER w AS before, lead(action_history.id) OVER w AS next,
        paid_action.flow, paid_action.state
    FROM action_history JOIN paid_action ON paid_action.id = action_history.action_id
    WHERE action_history.action_id = ANY(@actions::bigint[])
    WINDOW w AS (PARTITION BY action_history.action_id ORDER BY action_history.id)
) AS h
WHERE NOT action_step_allowed(h.flow, coalesce(h.from_state::text, ''), h.to_state::text)
    OR h.before IS DISTINCT FROM h.from_state
    OR (h.next IS NULL AND h.to_state <> h.state)
ORDER BY h.action_id;

-- name: FactsOfHistory :many
-- Each kind of step that was taken, and for what reason; and one action that took it.
SELECT paid_action.flow, coalesce(h.from_state::text, '')::text AS from_state, h.to_state, h.fact, min(h.action_id)::bigint AS action_id
FROM action_history h JOIN paid_action ON paid_action.id = h.action_id
WHERE h.action_id = ANY(@actions::bigint[]) GROUP BY paid_action.flow, h.from_state, h.to_state, h.fact ORDER BY 5;

-- name: ActionsWithoutHistory :many
SELECT id FROM paid_action WHERE id = ANY(@actions::bigint[]) AND NOT EXISTS (SELECT FROM action_history WHERE action_id = paid_action.id) ORDER BY id;

-- name: BreaksOfAttempts :many
-- Invariant 6: a successor that is not the next attempt of the same, and an attempt that is nobody's successor, told of the first one, or that is beside a first one
-- which was not retried. One by one, as BreaksOfKeys.
SELECT a.id, a.successor_id::bigint AS successor FROM paid_action a
CROSS JOIN LATERAL (SELECT p.genesis_id, p.attempt, p.kind, p.payer_id FROM paid_action p WHERE p.id = a.successor_id OFFSET 0) AS s
WHERE a.id = ANY(@actions::bigint[]) AND a.successor_id IS NOT NULL
    AND (s.genesis_id IS DISTINCT FROM coalesce(a.genesis_id, a.id) OR s.attempt <> a.attempt + 1 OR s.kind <> a.kind OR s.payer_id IS DISTINCT FROM a.payer_id)
UNION ALL SELECT a.genesis_id::bigint, a.id FROM paid_action a
WHERE a.id = ANY(@actions) AND a.genesis_id IS NOT NULL AND (SELECT p.id FROM paid_action p WHERE p.successor_id = a.id) IS NULL
UNION SELECT a.id, n.id FROM paid_action a CROSS JOIN LATERAL (SELECT n.id FROM paid_action n WHERE n.genesis_id = a.id AND n.attempt = 2 OFFSET 0) AS n
WHERE a.id = ANY(@actions) AND a.state <> 'RETRYING'
ORDER BY 1, 2;

-- name: BreaksOfDeadlines :many
-- Invariant 7, of everything open, in pages: past its deadline, or without what will ever move it. While a node is at an outgoing payment
-- the deadline is the height at which the payer's payment is in danger; the clock's says only when we look. A withdrawal that no node was given
-- may wait for one: waits_since is when what may wait until now began to. For waits_to see ListStuck.
SELECT d.id, d.state, d.deadline, d.overdue::boolean AS overdue, d.too_high::boolean AS too_high, d.idle::boolean AS idle FROM (
    SELECT a.id, a.state, a.deadline,
        coalesce(a.deadline < @overdue::timestamptz AND NOT (coalesce(r.stage IN ('in_work', 'pending_confirmation') AND r.inside_id IS NULL
                OR r.stage = 'incoming' AND r.node IS NULL AND r.receiver_id IS NULL AND coalesce(r.requeued_at, r.created_at) BETWEEN @waits_since::timestamptz AND @waits_to::timestamptz, false)
            AND (a.state = 'FORWARDING' OR (a.state = 'FORWARDED' AND a.flow = 'OUTGOING'))), false) AS overdue,
        coalesce(a.state <> 'FORWARDED' AND c.height > a.deadline_height, false) AS too_high, -- FORWARDED is the fifth's
        j.action_id IS NULL AS idle
    FROM paid_action a LEFT JOIN relay_payment r ON r.action_id = a.id
    LEFT JOIN invoice ON invoice.action_id = a.id LEFT JOIN node_cursor c ON c.node = invoice.node
    LEFT JOIN (
        SELECT DISTINCT named.action_id FROM river_job
        CROSS JOIN LATERAL (SELECT (args->>'action')::bigint AS action_id
            UNION ALL SELECT jsonb_array_elements_text(args->'with')::bigint AS action_id) AS named
        WHERE kind = 'advance' AND state IN ('available', 'pending', 'retryable', 'running', 'scheduled')
    ) AS j ON j.action_id = a.id
    WHERE a.state NOT IN ('PAID', 'FAILED', 'RETRYING') AND a.id > @after
) AS d
WHERE d.overdue OR d.too_high OR d.idle OR d.deadline IS NULL ORDER BY d.id LIMIT @page;

-- name: LostDeliveries :many
-- Invariant 7, of all messages to webhooks: one that has had its job for a while, and has none that will ever try it, though it has not ended. The first are told,
-- all counted. Job and message are written together, and the job ends after its message.
SELECT m.id, m.webhook_id, count(*) OVER ()::bigint AS total
FROM webhook_message m LEFT JOIN (
    SELECT DISTINCT (args->>'message')::bigint AS message FROM river_job
    WHERE kind = 'delivery' AND state IN ('available', 'pending', 'retryable', 'running', 'scheduled')
) AS j ON j.message = m.id
WHERE m.queued_at < @before::timestamptz AND m.ended_at IS NULL AND j.message IS NULL ORDER BY m.id LIMIT @page;

-- name: CountOpen :one
SELECT count(*) FROM paid_action WHERE state NOT IN ('PAID', 'FAILED', 'RETRYING');

-- name: BreaksOfKeys :many
-- Invariant 8: one key with two actions; the unique indexes refuse it, unless one was dropped. The page's actions one by one: as joins they are planned by how
-- many keys there were once, and go through all of them for each page.
WITH page AS MATERIALIZED (
    SELECT a.id, a.payer_id, a.idempotency_key FROM unnest(@actions::bigint[]) AS n (id)
    CROSS JOIN LATERAL (SELECT p.id, p.payer_id, p.idempotency_key FROM paid_action p WHERE p.id = n.id OFFSET 0) AS a WHERE a.idempotency_key IS NOT NULL
)
SELECT least(page.id, o.id)::bigint AS first, greatest(page.id, o.id)::bigint AS last FROM page CROSS JOIN LATERAL (
    SELECT p.id FROM paid_action p WHERE p.payer_id = page.payer_id AND p.idempotency_key = page.idempotency_key AND p.id <> page.id
        AND p.payer_id IS NOT NULL AND p.idempotency_key IS NOT NULL OFFSET 0) AS o
UNION ALL SELECT least(page.id, o.id)::bigint, greatest(page.id, o.id)::bigint FROM page CROSS JOIN LATERAL (
    SELECT p.id FROM paid_action p WHERE p.idempotency_key = page.idempotency_key AND p.id <> page.id AND p.payer_id IS NULL AND p.idempotency_key IS NOT NULL
    OFFSET 0) AS o WHERE page.payer_id IS NULL
ORDER BY 1;

-- name: WeakKeys :many
-- Invariant 8: an anonymous key that can be guessed, or a key whose arguments are not known and so cannot be compared.
SELECT id, (payer_id IS NULL AND octet_length(idempotency_key) < 22)::boolean AS guessable,
    (args_hash IS NULL OR octet_length(args_hash) <> 32)::boolean AS unhashed
FROM paid_action WHERE id = ANY(@actions::bigint[]) AND idempotency_key IS NOT NULL
    AND ((payer_id IS NULL AND octet_length(idempotency_key) < 22) OR args_hash IS NULL OR octet_length(args_hash) <> 32)
ORDER BY id;

-- name: InvoicesToCompare :many
-- What is held against the nodes: everything open, and everything that ended since.
SELECT invoice.action_id, invoice.node, invoice.payment_hash, (invoice.bolt11 IS NOT NULL OR invoice.dropped_at IS NOT NULL)::boolean AS issued,
    (paid_action.state NOT IN ('PAID', 'FAILED', 'RETRYING'))::boolean AS open
FROM paid_action JOIN invoice ON invoice.action_id = paid_action.id
WHERE paid_action.id = ANY(@actions::bigint[]) AND (paid_action.state NOT IN ('PAID', 'FAILED', 'RETRYING') OR paid_action.changed_at >= @since)
ORDER BY paid_action.id;

-- name: BookedForInvoice :one
-- What the ledger took from the node's account for one action.
SELECT coalesce(sum(msat), 0)::bigint FROM posting WHERE action_id = @action_id AND from_account = 0;

-- name: PaymentsToCompare :many
-- Every claim on a node that may have been paid, of what is open and of what ended since, and what its action has booked as having
-- left our nodes. Begun at the payments, and the later claims at the hash: as joins, planned while there are few, they go through all claims of a node for
-- each of them.
SELECT relay_attempt.node, relay_attempt.outcome, relay_attempt.seen, relay_attempt.earlier, relay_payment.action_id, relay_payment.payment_hash, relay_payment.stage,
    coalesce(relay_payment.fee_msat, 0)::bigint AS fee_msat, relay_payment.changed_at,
    (SELECT coalesce(sum(posting.msat), 0) FROM posting WHERE posting.action_id = relay_payment.action_id AND posting.to_account = 0)::bigint AS left_msat,
    (relay_payment.failure_code IS NOT DISTINCT FROM 'WRITTEN_OFF')::boolean AS written_off
FROM relay_payment CROSS JOIN LATERAL (SELECT c.id, c.node, c.outcome, c.seen, c.earlier FROM relay_attempt c WHERE c.payment_id = relay_payment.id OFFSET 0) AS relay_attempt
WHERE relay_payment.action_id = ANY(@actions::bigint[]) AND (relay_payment.stage NOT IN ('completed', 'failed') OR relay_payment.changed_at >= @since)
    AND NOT EXISTS ( -- a node knows one payment of a hash: it is the last claim's
        SELECT FROM relay_payment p CROSS JOIN LATERAL (
            SELECT a.id FROM relay_attempt a WHERE a.payment_id = p.id AND a.node = relay_attempt.node AND a.id > relay_attempt.id OFFSET 0) AS later
        WHERE p.payment_hash = relay_payment.payment_hash)
ORDER BY relay_attempt.id;

-- name: LossOf :one
-- Whether an action's payment was lost, and the loss booked (what goes to the nodes' account is a routing fee); and whether it was paid
-- by a withdrawal here; and whether an operator gave it up, since its node had lost its data, or its payment never arrived.
SELECT (EXISTS (SELECT FROM posting WHERE posting.action_id = @action_id AND from_account = 8 AND to_account <> 0))::boolean AS booked,
    (EXISTS (SELECT FROM relay_payment WHERE inside_id = @action_id AND preimage IS NOT NULL))::boolean AS paid_inside,
    (EXISTS (SELECT FROM action_history WHERE action_history.action_id = @action_id AND fact = 'GIVEN_UP'))::boolean AS given_up;

-- name: NamesOfNode :many
-- The names under which a node is known, or was: it is who its key says.
SELECT other.name FROM lightning_node AS known JOIN lightning_node AS other ON other.public_key = known.public_key WHERE known.name = $1;

-- name: RecordedHashes :many
-- Which of these hashes a node was ever given by us, under which other of its names, and which another node has paid or may still pay.
SELECT relay_payment.payment_hash, min(relay_payment.action_id)::bigint AS action_id, bool_or(relay_attempt.node = ANY(@names::text[]))::boolean AS here,
    bool_or(relay_attempt.node <> ALL(@names::text[]) AND (relay_attempt.outcome IS NULL OR relay_attempt.outcome = 'PAID'))::boolean AS elsewhere,
    coalesce(min(relay_attempt.node) FILTER (WHERE relay_attempt.node = ANY(@names::text[]) AND relay_attempt.node <> @node::text), '')::text AS former
FROM relay_payment JOIN relay_attempt ON relay_attempt.payment_id = relay_payment.id
WHERE relay_payment.payment_hash = ANY(@hashes::bytea[]) GROUP BY relay_payment.payment_hash;

-- name: KnownInvoices :many
-- Which of these hashes are those of invoices that we gave a node, and under which of its names.
SELECT payment_hash, node FROM invoice WHERE payment_hash = ANY(@hashes::bytea[]) AND node = ANY(@names::text[]);

-- name: Losses :many
-- What was booked as lost, newest first, and why: what an operator said where it was one, else the reason of the postings,
-- which is all there is to a loss booked by hand. Those of no action are told apart by their reasons.
SELECT lost.action_id, sum(lost.msat)::bigint AS msat,
    coalesce(max(relay_payment.failure_message) FILTER (WHERE relay_payment.failure_code = 'WRITTEN_OFF'),
        max(paid_action.failure_message) FILTER (WHERE paid_action.failure_code = 'WRITTEN_OFF'),
        string_agg(DISTINCT lost.reason, ', '), '')::text AS reason
FROM (
    SELECT posting.action_id, posting.msat, posting.reason FROM posting WHERE posting.from_account = 8
    UNION ALL SELECT archived_loss.action_id, archived_loss.msat, archived_loss.reason FROM archived_loss WHERE archived_loss.msat > 0
) AS lost LEFT JOIN relay_payment ON relay_payment.action_id = lost.action_id LEFT JOIN paid_action ON paid_action.id = lost.action_id
GROUP BY lost.action_id, CASE WHEN lost.action_id IS NULL THEN lost.reason END ORDER BY lost.action_id DESC NULLS LAST, 3 LIMIT @page;

-- name: CaughtByRest :one
-- An action of which rows are where only those of no action belong; 0: there is none. What is booked by hand for an archived action has no other
-- place, and stays there for good, as what is booked for no action.
SELECT coalesce((SELECT min(action_id) FROM posting_rest WHERE action_id > archived_to() OR reason NOT LIKE '% by hand'), (SELECT min(action_id) FROM action_history_rest), 0)::bigint;

-- name: BreaksOfRanges :many
-- Ranges that do not begin where the one before ends, or that are archived though that one is not: by one number everything tells what is archived.
SELECT r.first_action, r.last_action FROM (
    SELECT a.first_action, a.last_action, a.archived_at, coalesce(lag(a.last_action) OVER w, 0) AS before, coalesce(lag(a.archived_at IS NOT NULL) OVER w, true) AS archived_before
    FROM action_range a WINDOW w AS (ORDER BY a.first_action)
) AS r WHERE r.first_action <> r.before + 1 OR (r.archived_at IS NOT NULL AND NOT r.archived_before) ORDER BY r.first_action;

-- name: PartitionsDue :many
-- Which partitions there are to be: those of the ranges that are not archived, and the rest.
SELECT (family.name || '_' || part.name)::text AS name FROM (VALUES ('action_history'), ('posting')) AS family (name)
CROSS JOIN (SELECT action_range.first_action::text AS name FROM action_range WHERE action_range.archived_at IS NULL UNION ALL SELECT 'rest') AS part;
