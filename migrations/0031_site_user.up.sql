-- Who an existing site says somebody is (JWT): the user that its subject is here.
CREATE TABLE site_user (
    issuer     text NOT NULL,
    subject    text NOT NULL,
    user_id    bigint NOT NULL REFERENCES usr (id),
    created_at timestamptz NOT NULL,
    PRIMARY KEY (issuer, subject)
);
CREATE INDEX site_user_user ON site_user (user_id);
