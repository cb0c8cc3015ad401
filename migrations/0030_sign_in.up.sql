-- A key that was made by signing in is good for a while; one without this moment until it is revoked.
ALTER TABLE api_key ADD COLUMN expires_at timestamptz;

-- Keys of wallets that open an account (LUD-04): each one account, an account by as many as its owner links.
CREATE TABLE linking_key (
    key        bytea PRIMARY KEY CHECK (octet_length(key) = 33),  -- compressed
    user_id    bigint NOT NULL REFERENCES usr (id),
    created_at timestamptz NOT NULL
);
CREATE INDEX linking_key_user ON linking_key (user_id);

-- Signing in that is under way. k1 is in the QR code, which others may see; what the browser gets its key by is another secret.
CREATE TABLE sign_in (
    id          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    k1          bytea NOT NULL UNIQUE CHECK (octet_length(k1) = 32),
    secret_hash bytea NOT NULL UNIQUE CHECK (octet_length(secret_hash) = 32),
    action      text NOT NULL CHECK (action IN ('login', 'register', 'link')),
    links       bigint REFERENCES usr (id),                       -- the account that the key is to open
    created_at  timestamptz NOT NULL,
    expires_at  timestamptz NOT NULL,
    linking_key bytea CHECK (octet_length(linking_key) = 33),     -- that has signed k1, which it can once
    used_at     timestamptz,                                      -- the browser has got what it waited for
    CONSTRAINT link_has_account CHECK ((action = 'link') = (links IS NOT NULL)),
    CONSTRAINT used_was_signed CHECK (used_at IS NULL OR linking_key IS NOT NULL)
);
CREATE INDEX sign_in_expires ON sign_in (expires_at);
CREATE INDEX sign_in_links ON sign_in (links) WHERE links IS NOT NULL;
