package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"time"
)

// healthcheckCommand asks a service on this machine how it is. It is for supervisors that have no program of their own
// to ask with, for example in an image that contains only this program.
type healthcheckCommand struct {
	Ready bool `help:"Ask whether it is ready: its database, its nodes and their streams. Without this, only whether it is alive."`
}

// healthcheckTimeout exceeds the time that /readyz takes when a part hangs.
const healthcheckTimeout = 4 * time.Second

func (c healthcheckCommand) Run(ctx context.Context, e *environment) error {
	address, err := askedAt(e.config.Listen)
	if err != nil {
		return err
	}
	path := "/healthz"
	if c.Ready {
		path = "/readyz"
	}
	ctx, cancel := context.WithTimeout(ctx, healthcheckTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+path, nil)
	if err != nil {
		return err
	}
	// Ignore proxies of the environment: the service is on the same machine.
	answer, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(request)
	if err != nil {
		return fmt.Errorf("the service does not answer: %w", err)
	}
	defer answer.Body.Close()
	if answer.StatusCode == http.StatusOK {
		return nil
	}
	err = fmt.Errorf("http://%s%s answers %s: the service's log says why", address, path, answer.Status)
	var said readyAnswer
	if json.NewDecoder(io.LimitReader(answer.Body, 1<<16)).Decode(&said) != nil {
		return err // not an answer of Holdfast's
	}
	for _, part := range slices.Sorted(maps.Keys(said.Parts)) {
		if p := said.Parts[part]; !p.Ready {
			err = fmt.Errorf("%w\n%s: %s", err, part, p.Problem)
		}
	}
	return err
}

// askedAt is the address at which a service is asked from its own machine. A service that listens everywhere also
// listens on loopback.
func askedAt(listen string) (string, error) {
	host, port, err := net.SplitHostPort(listen)
	if err != nil || port == "0" {
		return "", fmt.Errorf("%w: a service that listens at %q cannot be found; set HOLDFAST_LISTEN to its HOST:PORT", errSettings, listen)
	}
	if ip, err := netip.ParseAddr(host); host == "" || err == nil && ip == netip.IPv4Unspecified() {
		host = "127.0.0.1"
	} else if err == nil && ip == netip.IPv6Unspecified() {
		host = "::1"
	}
	return net.JoinHostPort(host, port), nil
}
