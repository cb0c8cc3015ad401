-- name: KeepSecretPrint :exec
-- The first process says which secret it is; no other one changes that.
INSERT INTO secret_print (print) VALUES (@print) ON CONFLICT DO NOTHING;

-- name: SecretPrint :one
SELECT print FROM secret_print;
