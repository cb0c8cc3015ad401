package chaos

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
)

// logs looks for messages that must never occur. It reads the logs, because a crash makes PostgreSQL forget its
// counters.
func (r *run) logs() (found []string, err error) {
	for file, words := range r.neverSaid() {
		text, readErr := os.ReadFile(file)
		err = errors.Join(err, readErr)
		found = append(found, lines(file, string(text), words)...)
	}
	return found, err
}

// neverSaid are words that must not occur in a log, by file.
func (r *run) neverSaid() map[string][]string {
	words := map[string][]string{r.stack.Postgres.LogFile(): {"deadlock detected"}}
	for _, own := range processes {
		words[filepath.Join(filepath.Dir(r.stack.ServiceLog()), own.name+".log")] = []string{"panic", "40P01"}
	}
	return words
}

// lines are the lines of a log with one of the words.
func lines(file, text string, words []string) (found []string) {
	for line := range strings.Lines(text) {
		for _, word := range words {
			if strings.Contains(line, word) {
				found = append(found, filepath.Base(file)+": "+strings.TrimSpace(line))
				break
			}
		}
	}
	return found
}
