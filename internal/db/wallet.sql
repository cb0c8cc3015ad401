-- name: NextWalletID :one
-- The settings are bound to the id, so it has to be known before they are written.
SELECT nextval(pg_get_serial_sequence('receiver_wallet', 'id'))::bigint AS id;

-- name: InsertWallet :exec
-- The last to be asked.
INSERT INTO receiver_wallet (id, user_id, kind, label, priority, settings, created_at, changed_at)
SELECT @id, @user_id, @kind, @label, coalesce(max(priority), 0) + 1, @settings, @at, @at FROM receiver_wallet WHERE user_id = @user_id;

-- name: ReplaceWallet :exec
UPDATE receiver_wallet SET kind = @kind, label = @label, settings = @settings, changed_at = @at WHERE id = @id AND user_id = @user_id;

-- name: EnableWallet :execrows
UPDATE receiver_wallet SET enabled = @enabled, changed_at = @at WHERE id = @id AND user_id = @user_id;

-- name: OrderWallets :exec
UPDATE receiver_wallet SET priority = array_position(@ids::bigint[], id) WHERE user_id = @user_id AND id = ANY(@ids::bigint[]);

-- name: DeleteWallet :execrows
DELETE FROM receiver_wallet WHERE id = @id AND user_id = @user_id;

-- name: WalletsOfUser :many
SELECT id, kind, label, priority, enabled, created_at, changed_at FROM receiver_wallet WHERE user_id = $1 ORDER BY priority, id;

-- name: HasWallet :one
SELECT EXISTS (SELECT FROM receiver_wallet WHERE user_id = $1 AND enabled);

-- name: WalletIsAsked :one
-- Neither removed nor disabled.
SELECT EXISTS (SELECT FROM receiver_wallet WHERE id = $1 AND enabled);

-- name: UsableWallets :many
-- In the order in which they are asked: one that failed for this genesis comes behind those that did not (spec 01 §1.7), and one that failed as often is left out. So is one
-- that has as many invoices waiting inside of ours: what it issues now would find no place (BoundWallet).
SELECT receiver_wallet.id, kind, settings FROM receiver_wallet
LEFT JOIN wallet_failure f ON f.wallet_id = receiver_wallet.id AND f.genesis_id = @genesis_id
WHERE user_id = @user_id AND enabled AND coalesce(f.failures, 0) < @failures::integer
    AND (SELECT count(*) FROM paid_action a WHERE a.inner_wallet_id = receiver_wallet.id AND a.state = 'PENDING_HELD') < @pending::bigint
ORDER BY coalesce(f.failures, 0), priority, receiver_wallet.id;

-- name: AppendWalletLog :one
-- No row if the wallet was removed meanwhile.
INSERT INTO wallet_log (wallet_id, genesis_id, ok, code, message, ms, at)
SELECT w.id, sqlc.narg(genesis_id), @ok::boolean, @code::text, @message::text, @ms::bigint, @at::timestamptz
FROM receiver_wallet w WHERE w.id = @wallet_id FOR KEY SHARE
RETURNING id;

-- name: CountWalletFailure :exec
INSERT INTO wallet_failure (genesis_id, wallet_id, failures)
SELECT @genesis_id::bigint, w.id, 1 FROM receiver_wallet w WHERE w.id = @wallet_id FOR KEY SHARE
ON CONFLICT (genesis_id, wallet_id) DO UPDATE SET failures = wallet_failure.failures + 1;

-- name: DeleteWalletFailures :execrows
-- Those for what was begun long ago: of a page of them, in the order in which it was begun. Nobody is waited for.
WITH old AS (
    SELECT f.genesis_id, f.wallet_id FROM wallet_failure f WHERE f.genesis_id = ANY (ARRAY(
        SELECT a.id FROM paid_action a
        WHERE a.id = ANY (ARRAY(SELECT oldest.genesis_id FROM wallet_failure AS oldest ORDER BY oldest.genesis_id LIMIT @page)) AND a.created_at < @before
    )) FOR NO KEY UPDATE SKIP LOCKED
)
DELETE FROM wallet_failure USING old WHERE wallet_failure.genesis_id = old.genesis_id AND wallet_failure.wallet_id = old.wallet_id;

-- name: ForgetWalletLog :exec
-- All but the newest of one wallet.
DELETE FROM wallet_log WHERE wallet_log.wallet_id = @wallet_id AND wallet_log.id <= (
    SELECT l.id FROM wallet_log l WHERE l.wallet_id = @wallet_id ORDER BY l.id DESC OFFSET @kept LIMIT 1);

-- name: LogsOfWallets :many
-- One page of each of these wallets' logs, newest first.
SELECT entry.id, entry.wallet_id, entry.ok, entry.code, entry.message, entry.ms, entry.at
FROM unnest(@wallets::bigint[]) AS wallet (id) CROSS JOIN LATERAL (
    SELECT l.* FROM wallet_log l WHERE l.wallet_id = wallet.id AND l.id < @before::bigint ORDER BY l.id DESC LIMIT @page
) AS entry ORDER BY entry.wallet_id, entry.id DESC;
