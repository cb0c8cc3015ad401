// Package benchdb holds the benchmark's own queries, so that it shares none with what it measures.
package benchdb
