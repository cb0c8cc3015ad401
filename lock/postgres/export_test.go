package postgres

import "context"

// Prepared is how many statements the connection that is used next has prepared.
func (s *Store) Prepared(ctx context.Context) (n int, err error) {
	err = s.pool.QueryRow(ctx, "SELECT count(*) FROM pg_prepared_statements").Scan(&n)
	return n, err
}
