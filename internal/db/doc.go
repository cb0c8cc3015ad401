// Package db holds the queries of internal/db/*.sql, compiled by sqlc against the migrations. make generate writes all
// of it except this file, repeat.go and transaction.go.
package db
