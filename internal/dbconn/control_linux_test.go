package dbconn_test

import (
	"net"
	"syscall"
	"testing"

	"github.com/a-seed-a7aed72f/holdfast/internal/pgtest"
)

// TCP is told when to give up.
func TestTCPGivesUp(t *testing.T) {
	t.Parallel()
	conn, err := bounded(t, pgtest.New(t).Config().ConnString()).Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Release()
	raw, err := conn.Conn().PgConn().Conn().(*net.TCPConn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	// TCP_USER_TIMEOUT is 0x12; package syscall has no name for it.
	for option, want := range map[int]int{0x12: 15_000, syscall.TCP_KEEPIDLE: 10, syscall.TCP_KEEPINTVL: 5, syscall.TCP_KEEPCNT: 3} {
		var got int
		var refused error
		if err := raw.Control(func(fd uintptr) { got, refused = syscall.GetsockoptInt(int(fd), syscall.IPPROTO_TCP, option) }); err != nil || refused != nil {
			t.Fatal(err, refused)
		}
		if got != want {
			t.Errorf("option %#x is %d, want %d", option, got, want)
		}
	}
}
