package devnet

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/btcsuite/btcd/wire"

	"github.com/a-seed-a7aed72f/holdfast/internal/child"
)

const (
	chainDir = "btcd"

	// firstBlocks is enough for segregated witness to be active, which on simnet takes three periods of a hundred
	// blocks, and for the first coins to be spendable.
	firstBlocks = 432
)

// chain is the block chain: a btcd without peers that mines on request.
type chain struct {
	server         *child.Server
	rpc            string // address
	user, password string
	cert           string // path
	client         *http.Client

	mutex sync.Mutex
	kept  map[int]string // blocks above the first ones, by height, in hex
}

// start starts btcd, and returns once it answers.
func (c *chain) start(ctx context.Context) error {
	if err := c.server.Start(); err != nil {
		return err
	}
	ctx, release := c.server.WhileAlive(ctx)
	defer release()
	return until(ctx, 30*time.Second, "btcd to answer", func(ctx context.Context) (bool, error) {
		if c.client == nil {
			// btcd makes its certificate at its first start.
			client, err := clientTrusting(c.cert)
			if err != nil {
				return false, err
			}
			c.client = client
		}
		_, err := c.height(ctx)
		return true, err
	})
}

func clientTrusting(cert string) (*http.Client, error) {
	pem, err := os.ReadFile(cert)
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("no certificate in %s", cert)
	}
	return &http.Client{Transport: &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12},
		// btcd closes idle connections at will, and a request on a closed one would fail.
		DisableKeepAlives: true,
	}}, nil
}

// call makes one call of Bitcoin's JSON-RPC. A refusal by btcd is a [*chainError].
func (c *chain) call(ctx context.Context, result any, method string, params ...any) error {
	if params == nil {
		params = []any{}
	}
	body, err := json.Marshal(map[string]any{"jsonrpc": "1.0", "id": 1, "method": method, "params": params})
	if err != nil {
		return err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://"+c.rpc, bytes.NewReader(body))
	if err != nil {
		return err
	}
	request.SetBasicAuth(c.user, c.password)
	response, err := c.client.Do(request)
	if err != nil {
		return fmt.Errorf("btcd %s: %w", method, err)
	}
	defer response.Body.Close()
	answer := struct {
		Result any         `json:"result"`
		Error  *chainError `json:"error"`
	}{Result: result}
	if err := json.NewDecoder(response.Body).Decode(&answer); err != nil {
		return fmt.Errorf("btcd %s: %s: %w", method, response.Status, err)
	}
	if answer.Error != nil {
		return fmt.Errorf("btcd %s: %w", method, answer.Error)
	}
	return nil
}

type chainError struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
}

func (e *chainError) Error() string { return fmt.Sprintf("%s (code %d)", e.Message, e.Code) }

func (c *chain) height(ctx context.Context) (height uint32, err error) {
	err = c.call(ctx, &height, "getblockcount")
	return height, err
}

// generate mines blocks on top of the chain, and keeps them.
func (c *chain) generate(ctx context.Context, blocks int) error {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if err := c.giveBack(ctx); err != nil {
		return err
	}
	var hashes []string
	if err := c.call(ctx, &hashes, "generate", blocks); err != nil {
		return err
	}
	return c.keep(ctx)
}

func (c *chain) send(ctx context.Context, tx *wire.MsgTx) error {
	var raw bytes.Buffer
	if err := tx.Serialize(&raw); err != nil {
		return err
	}
	var id string
	return c.call(ctx, &id, "sendrawtransaction", hex.EncodeToString(raw.Bytes()))
}

// block is the block at a height.
func (c *chain) block(ctx context.Context, height int) (*wire.MsgBlock, error) {
	text, err := c.rawBlock(ctx, height)
	if err != nil {
		return nil, err
	}
	raw, err := hex.DecodeString(text)
	if err != nil {
		return nil, err
	}
	var block wire.MsgBlock
	return &block, block.Deserialize(bytes.NewReader(raw))
}

func (c *chain) rawBlock(ctx context.Context, height int) (text string, err error) {
	var hash string
	if err := c.call(ctx, &hash, "getblockhash", height); err != nil {
		return "", err
	}
	err = c.call(ctx, &text, "getblock", hash, 0)
	return text, err
}

// configure writes btcd's settings to a file, because everybody on a machine can read the command lines of all
// programs, and the password is among the settings.
func (c *chain) configure(dir, bin string, claim *child.Claim) error {
	address, err := miningAddress()
	if err != nil {
		return err
	}
	conf := filepath.Join(dir, "btcd.conf")
	c.cert = filepath.Join(dir, "rpc.cert")
	settings := [][2]string{
		{"simnet", "1"}, {"nolisten", "1"}, {"nodnsseed", "1"}, {"txindex", "1"},
		{"datadir", filepath.Join(dir, "data")}, {"logdir", filepath.Join(dir, "logs")},
		{"rpclisten", c.rpc}, {"rpcuser", c.user}, {"rpcpass", c.password},
		{"rpccert", c.cert}, {"rpckey", filepath.Join(dir, "rpc.key")},
		{"rpcmaxwebsockets", "100"}, {"miningaddr", address},
	}
	if err := writeSettings(conf, "Application Options", settings); err != nil {
		return err
	}
	c.server = child.NewServer(child.Command{
		Name: "btcd", Path: filepath.Join(bin, "btcd"), Args: []string{"--configfile", conf},
		Env: atHome(dir), Dir: dir, Log: filepath.Join(dir, "btcd.log"), Holds: claim,
	})
	return nil
}

// atHome is our environment with another HOME. Otherwise btcd would look into ~/.btcd for data of its oldest versions
// and move them, whatever its settings name. It still makes an empty directory .btcd in the home directory that the
// system's list of users names.
func atHome(dir string) []string { return append(os.Environ(), "HOME="+dir) }

func writeSettings(path, section string, settings [][2]string) error {
	var text bytes.Buffer
	fmt.Fprintf(&text, "[%s]\n", section)
	for _, setting := range settings {
		fmt.Fprintf(&text, "%s=%s\n", setting[0], setting[1])
	}
	return os.WriteFile(path, text.Bytes(), 0o600)
}

func loopback(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }

// errNoCoins means that the chain does not pay its blocks to the right key.
var errNoCoins = errors.New("a block pays nobody")
