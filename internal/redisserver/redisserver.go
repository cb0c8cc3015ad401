// Package redisserver runs a Redis server for tests and measurements, from the program installed on the machine. It
// listens only on a free port of 127.0.0.1, asks for a random password, and keeps nothing on disk.
package redisserver

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/a-seed-a7aed72f/holdfast/internal/aptget"
	"github.com/a-seed-a7aed72f/holdfast/internal/child"
	"github.com/a-seed-a7aed72f/holdfast/internal/freeport"
)

// Program is what the package needs.
var Program = aptget.Program{Name: "redis-server", Package: "redis-server"}

// Server is a running server.
type Server struct {
	dir      string
	port     int
	password string
	server   *child.Server
}

// Start starts a server that works in dir, and returns once it answers. It fails with [*aptget.NotFoundError] if Redis
// is not installed.
func Start(ctx context.Context, dir string) (*Server, error) {
	if _, err := Program.Path(); err != nil {
		return nil, err
	}
	s := &Server{dir: dir, password: rand.Text()}
	var failed error
	for range 3 { // a port can be taken in between
		ports, err := freeport.Pick(1)
		if err != nil {
			return nil, err
		}
		s.port = ports[0]
		if s.server, err = s.command(); err != nil {
			return nil, err
		}
		failed = s.Resume(ctx)
		if exit := (*exec.ExitError)(nil); !errors.As(failed, &exit) {
			break
		}
	}
	if failed != nil {
		return nil, failed
	}
	return s, nil
}

// ForTest starts a server for as long as the test lasts. The test fails if Redis is not installed.
func ForTest(t testing.TB) *Server {
	t.Helper()
	scratch, err := child.NewScratch("holdfast-test-redis")
	if err != nil {
		t.Fatal(err)
	}
	s, err := Start(t.Context(), scratch.Dir)
	if err != nil {
		t.Fatal(errors.Join(err, scratch.Remove()))
	}
	t.Cleanup(func() {
		s.Stop()
		if err := scratch.Remove(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func (s *Server) command() (*child.Server, error) {
	path, err := Program.Path()
	if err != nil {
		return nil, err
	}
	// The password goes through a file, because everybody on the machine can see the arguments of programs.
	settings := filepath.Join(s.dir, "redis.conf")
	text := fmt.Sprintf("bind 127.0.0.1\nport %d\nrequirepass %s\nsave \"\"\nappendonly no\ndir %q\n", s.port, s.password, s.dir)
	if err := os.WriteFile(settings, []byte(text), 0o600); err != nil {
		return nil, err
	}
	return child.NewServer(child.Command{
		Name: "Redis", Path: path, Args: []string{settings}, Dir: s.dir, Log: filepath.Join(s.dir, "redis.log"),
	}), nil
}

// URL is the server's address. It stays the same across restarts.
func (s *Server) URL() string {
	u := url.URL{Scheme: "redis", User: url.UserPassword("default", s.password), Host: "127.0.0.1:" + strconv.Itoa(s.port), Path: "/0"}
	return u.String()
}

// Resume starts the server again after Kill, on the same port and without any data, and returns once it answers.
func (s *Server) Resume(ctx context.Context) error {
	if err := s.server.Start(); err != nil {
		return err
	}
	options, err := redis.ParseURL(s.URL())
	if err != nil {
		return err
	}
	client := redis.NewClient(options)
	defer client.Close()
	err = s.server.AwaitReady(ctx, 20*time.Second, func(ctx context.Context) error { return client.Ping(ctx).Err() })
	if err != nil {
		s.server.Kill()
	}
	return err
}

// Kill ends the server as a power failure would: everything in it is lost.
func (s *Server) Kill() { s.server.Kill() }

// Stop ends the server. Nothing runs any more when it returns.
func (s *Server) Stop() { s.server.Stop(5 * time.Second) }
