package bench

import (
	"bufio"
	"context"
	"os"
	"runtime"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
)

// machine is what the figures depend on besides the programs. Nothing in it identifies the machine.
type machine struct {
	Cores    int
	CPU      string // its model; empty if the system does not say
	MemoryGB float64
	System   string
	Go       string
	Postgres string
}

// machine finds out about the machine.
func (d *database) machine(ctx context.Context) (machine, error) {
	m := machine{Cores: runtime.NumCPU(), System: runtime.GOOS + "/" + runtime.GOARCH, Go: runtime.Version(), CPU: firstLine("/proc/cpuinfo", "model name")}
	if kb, err := strconv.ParseFloat(strings.TrimSuffix(firstLine("/proc/meminfo", "MemTotal"), " kB"), 64); err == nil {
		m.MemoryGB = kb / (1 << 20)
	}
	connection, err := pgx.Connect(ctx, d.DSN("postgres"))
	if err != nil {
		return m, err
	}
	defer connection.Close(ctx)
	err = connection.QueryRow(ctx, "SHOW server_version").Scan(&m.Postgres)
	return m, err
}

// firstLine is the value of a name in one of the kernel's files, or "".
func firstLine(file, name string) string {
	list, err := os.Open(file)
	if err != nil {
		return ""
	}
	defer list.Close()
	for lines := bufio.NewScanner(list); lines.Scan(); {
		if key, value, ok := strings.Cut(lines.Text(), ":"); ok && strings.TrimSpace(key) == name {
			return strings.TrimSpace(value)
		}
	}
	return ""
}
