package child

import (
	"io"
	"os"
	"strings"
)

// logTail is the last lines of a log file, at most 2 KiB, for an error message; empty if there are none.
func logTail(path string) string {
	const most = 2 << 10
	file, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return ""
	}
	from := max(0, info.Size()-most)
	text, err := io.ReadAll(io.NewSectionReader(file, from, most))
	if err != nil {
		return ""
	}
	tail := string(text)
	if from > 0 {
		_, tail, _ = strings.Cut(tail, "\n") // the first line is incomplete
	}
	return strings.TrimSpace(tail)
}
