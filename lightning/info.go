package lightning

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/lightningnetwork/lnd/lnrpc"
	"github.com/lightningnetwork/lnd/lnwire"

	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// NodeInfo is what a node says about itself.
type NodeInfo struct {
	PubKey  string // hex
	Version string // as LND writes it: "0.21.3-beta commit=…"
	Network string // mainnet, testnet, signet, regtest, simnet
	Height  uint32 // of the best block it knows
	Synced  bool   // to the chain
	Keysend bool   // it accepts payments that nobody asked for
	Graph   bool   // synced to the channel graph once since its start: before that it finds no routes, or outdated ones
}

// Info asks the node who it is.
func (c *Client) Info(ctx context.Context) (NodeInfo, error) {
	info, err := call(ctx, c, "GetInfo", c.main.GetInfo, &lnrpc.GetInfoRequest{})
	if err != nil {
		return NodeInfo{}, err
	}
	node := NodeInfo{
		PubKey: info.IdentityPubkey, Version: info.Version,
		Height: info.BlockHeight, Synced: info.SyncedToChain, Graph: info.SyncedToGraph,
	}
	for _, bit := range []lnwire.FeatureBit{lnwire.KeysendRequired, lnwire.KeysendOptional} {
		if _, announced := info.Features[uint32(bit)]; announced {
			node.Keysend = true
		}
	}
	if len(info.Chains) > 0 {
		node.Network = info.Chains[0].Network
	}
	return node, nil
}

// chainGood is how long an answer about the chain is good for others. Each payment asks several times, a block comes
// every ten minutes, and what is decided by it keeps a margin of blocks.
const chainGood = 100 * time.Millisecond

// known is the node's last answer about the chain.
type known struct {
	mu    sync.Mutex
	asked time.Time // a moment before the node was asked
	chain paidaction.Chain
}

// good reports whether the answer is good at this moment, by both clocks: the monotonic one stands still while a machine
// is suspended, and blocks come.
func (k *known) good(now time.Time) bool {
	return now.Sub(k.asked) < chainGood && now.Round(0).Sub(k.asked.Round(0)).Abs() < chainGood
}

// Chain implements paidaction.Node. The answer may be that of a call that began up to chainGood before. Who the node is
// gets asked anew each time (PublicKey): what depends on that keeps no margin.
func (c *Client) Chain(ctx context.Context) (paidaction.Chain, error) {
	asked := time.Now()
	c.known.mu.Lock()
	last, good := c.known.chain, c.known.good(asked)
	c.known.mu.Unlock()
	if good {
		return last, nil
	}
	info, err := c.Info(ctx)
	if err != nil {
		return paidaction.Chain{}, err
	}
	chain := paidaction.Chain{Height: info.Height, Synced: info.Synced}
	c.known.mu.Lock()
	defer c.known.mu.Unlock()
	if asked.After(c.known.asked) {
		c.known.asked, c.known.chain = asked, chain
	}
	return chain, nil
}

// Permissions are the calls that Holdfast makes, as LND names them: what a macaroon must allow. Each can be given to
// `lncli bakemacaroon` as uri:<name>. A node that only issues invoices needs none of those that send money.
func Permissions(sends bool) []string {
	needed := []string{
		"/lnrpc.Lightning/GetInfo",
		"/lnrpc.Lightning/CheckMacaroonPermissions",
		"/lnrpc.Lightning/AddInvoice",
		"/lnrpc.Lightning/LookupInvoice",
		"/lnrpc.Lightning/ListInvoices",
		"/lnrpc.Lightning/SubscribeInvoices",
		"/invoicesrpc.Invoices/AddHoldInvoice",
		"/invoicesrpc.Invoices/SettleInvoice",
		"/invoicesrpc.Invoices/CancelInvoice",
		"/invoicesrpc.Invoices/SubscribeSingleInvoice",
		"/chainrpc.ChainNotifier/RegisterBlockEpochNtfn",
	}
	if sends {
		needed = append(needed,
			"/lnrpc.Lightning/DecodePayReq",
			"/lnrpc.Lightning/GetNodeInfo",
			"/lnrpc.Lightning/ChannelBalance",
			"/lnrpc.Lightning/ListChannels",
			"/lnrpc.Lightning/ListPayments",
			"/routerrpc.Router/SendPaymentV2",
			"/routerrpc.Router/TrackPaymentV2",
		)
	}
	return needed
}

// Check asks the node whether it can serve: LND 0.20 or later, on the configured network, without keysend, and with a
// macaroon that allows every call. ErrUnfit says that it cannot, and what to change. Any other error says that the node
// could not be asked or did not answer; it may still be fit.
func (c *Client) Check(ctx context.Context) error {
	info, err := c.Info(ctx)
	if errors.Is(err, ErrNotPermitted) { // a macaroon of another node, or for another purpose
		return fmt.Errorf("%w: %w: bake one with %s", ErrUnfit, err, uris(Permissions(c.cfg.Sends)))
	}
	if err != nil {
		return err
	}
	if err := c.suits(info); err != nil {
		return err
	}
	var missing []string
	for _, method := range Permissions(c.cfg.Sends) {
		allowed, err := c.allows(ctx, method)
		if err != nil {
			return err
		}
		if !allowed {
			missing = append(missing, method)
		}
	}
	if len(missing) > 0 {
		return fmt.Errorf("%w: lightning node %s: %w: bake one with %s", ErrUnfit, c.cfg.Name, ErrNotPermitted, uris(missing))
	}
	return nil
}

// suits fails with ErrUnfit if what a node says of itself forbids to use it.
func (c *Client) suits(info NodeInfo) error {
	// Those before do not know CheckDefaultPermsFromFullMethod: they find every macaroon sufficient, and none void, so
	// that neither what it permits nor the node's clock (Time) could be read.
	if !versionAtLeast(info.Version, 0, 20) {
		return fmt.Errorf("%w: lightning node %s runs LND %s; upgrade it to 0.20 or later", ErrUnfit, c.cfg.Name, info.Version)
	}
	if c.cfg.Network != "" && info.Network != c.cfg.Network {
		return fmt.Errorf("%w: lightning node %s is on %s, not on %s; correct its address or the network", ErrUnfit,
			c.cfg.Name, info.Network, c.cfg.Network)
	}
	if info.Keysend {
		// Whoever knows the preimage of an invoice that we are about to open could make the node create one with that
		// hash first.
		return fmt.Errorf("%w: lightning node %s takes payments by keysend; switch accept-keysend off", ErrUnfit, c.cfg.Name)
	}
	return nil
}

// uris formats methods as arguments of lncli bakemacaroon.
func uris(methods []string) string { return "uri:" + strings.Join(methods, " uri:") }

func (c *Client) allows(ctx context.Context, method string) (bool, error) {
	_, err := call(ctx, c, "CheckMacaroonPermissions", c.main.CheckMacaroonPermissions, &lnrpc.CheckMacPermRequest{
		Macaroon: c.macaroon, FullMethod: method, CheckDefaultPermsFromFullMethod: true,
	})
	if errors.Is(err, ErrNotPermitted) {
		return false, nil
	}
	return err == nil, err
}

// versionAtLeast compares the numbers at the start of LND's version.
func versionAtLeast(version string, major, minor int) bool {
	parts := strings.SplitN(strings.TrimPrefix(version, "v"), ".", 3)
	if len(parts) < 2 {
		return false
	}
	gotMajor, err1 := strconv.Atoi(parts[0])
	gotMinor, err2 := strconv.Atoi(parts[1])
	return err1 == nil && err2 == nil && (gotMajor > major || gotMajor == major && gotMinor >= minor)
}
