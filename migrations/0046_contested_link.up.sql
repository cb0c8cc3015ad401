-- A wallet that signs a challenge is linked to no account by that, but once the account's owner collects it. Two wallets that sign the same one contest it:
-- somebody has seen the code who should not have, and nobody here can tell which of them it is. So neither is linked, ever.
ALTER TABLE sign_in ADD COLUMN contested_at timestamptz,
    ADD CONSTRAINT contested_was_signed CHECK (contested_at IS NULL OR action = 'link' AND linking_key IS NOT NULL),
    ADD CONSTRAINT contested_is_not_used CHECK (contested_at IS NULL OR used_at IS NULL);
