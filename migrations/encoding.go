package migrations

import (
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5/pgconn"
)

// ErrEncoding means that a database was made with an encoding that does not hold every text, as createdb does where
// PostgreSQL was installed without a locale. A letter that is no ASCII would be refused there, or be counted as several.
var ErrEncoding = errors.New("the database is not in UTF-8")

// Encoding is [ErrEncoding] unless the database of this connection is in UTF-8. A pooler may not say what it is in.
func Encoding(of *pgconn.PgConn) error {
	if encoding := of.ParameterStatus("server_encoding"); encoding != "UTF8" && encoding != "" {
		return fmt.Errorf("%w but in %s: make it anew with createdb --encoding UTF8 --template template0", ErrEncoding, encoding)
	}
	return nil
}
