// Package config holds the settings of the service. They come from flags, HOLDFAST_… environment variables and a JSON
// file, in this order of precedence, and from defaults. All can be printed without secrets. Settings that cannot work
// together are refused with a sentence that says what to do. Begin with Config, which has all of them, and its Check.
package config

import (
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/a-seed-a7aed72f/holdfast/lightning/wrap"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// Config holds all settings. The tags are kong's. The environment variable of a flag is HOLDFAST_ and the flag's name
// in capitals, with underscores.
type Config struct {
	DatabaseURL  Database `help:"PostgreSQL to use, as a URL." default:"postgres://localhost/holdfast" placeholder:"URL"`
	DatabasePool int32    `help:"Most database connections of this process." default:"24"`
	Bounds       Bounds   `embed:"" prefix:"database-"`

	DatabaseFailsOver bool `help:"What takes over from PostgreSQL has all that was committed: go on after a fail-over, without holdfast timeline accept. Only where every copy that may take over is synchronous."`

	Listen      string   `help:"Address of the API, /healthz, /readyz and /metrics." default:"127.0.0.1:8080" placeholder:"HOST:PORT"`
	Roles       []string `help:"What this process does: one or more of api, worker, listener." enum:"api,worker,listener" default:"api,worker,listener"`
	Development bool     `help:"Development mode: anybody can sign up, and without a secret a publicly known one is used. Never on mainnet."`
	Secret      Secret   `help:"Key that protects the secrets of anonymous payers, receivers' wallets and webhooks: at least 32 bytes in hex. Never change it." placeholder:"HEX"`

	OperatorKey Secret `help:"Password of the operator's pages at /operator/: at least 32 bytes in hex. Without one there are no such pages." placeholder:"HEX"`

	Nodes   Nodes  `help:"Lightning nodes: NAME=HOST:PORT;tls=PATH;macaroon=PATH, separated by commas. Append ;send=no for a node that only issues invoices, or ;slots=N. Never reuse a name for another node." placeholder:"NODES"`
	Network string `help:"Network that the nodes must be on." enum:"mainnet,testnet,signet,regtest,simnet" default:"mainnet"`

	InvoiceExpiry   time.Duration `help:"How long a payer has to pay." default:"10m"`
	CLTVDelta       uint32        `name:"cltv-delta" help:"Final CLTV of invoices, in blocks." default:"80"`
	HoldExpiryDelta uint32        `help:"The nodes' holdexpirydelta, in blocks." default:"18"`
	SafetyBlocks    uint32        `help:"Distance kept, in blocks, from the height at which a node gives a held payment back." default:"12"`
	MaxPending      int64         `help:"Most open invoices of one payer." default:"100"`

	ReconcileEvery time.Duration `help:"How often one of the workers reconciles what has changed; 0: never." default:"10m"`

	PublicURL      Public         `help:"Where people reach the service, such as https://example.org: users get lightning addresses like name@example.org and can sign in with their wallets. Without it they can do neither. If the host changes, every wallet signs in with another key." placeholder:"URL"`
	DemoWallet     Wallet         `help:"Only in development: the URL to which the page's button posts an invoice, to be paid with worthless coins; make run sets it." placeholder:"URL"`
	Origins        []string       `help:"Other origins whose pages may open websockets, such as https://example.org, separated by commas." placeholder:"ORIGIN"`
	TrustedProxies []netip.Prefix `help:"Networks of proxies whose X-Forwarded-For is trusted, such as 10.0.0.0/8, separated by commas." placeholder:"NETWORK"`

	SignIn SignIn `embed:""`
	Prices Prices `embed:""`
	Lock   Lock   `embed:"" prefix:"lock-"`
	Rate   Rate   `embed:"" prefix:"rate-"`

	Sending Sending `embed:"" prefix:"node-"`
	Relay   Relay   `embed:"" prefix:"relay-"`

	LogLevel  slog.Level `help:"debug, info, warn or error." default:"info"`
	LogFormat string     `help:"text or json." enum:"text,json" default:"text"`
}

// developmentSecret is known to everybody. With it a development service can be started without settings, and its data
// survive a restart.
var developmentSecret = []byte("holdfast development: known to all")

// Has reports whether this process plays the role.
func (c *Config) Has(role string) bool { return slices.Contains(c.Roles, role) }

// Key is the secret to use.
func (c *Config) Key() []byte {
	if len(c.Secret) == 0 && c.Development {
		return developmentSecret
	}
	return c.Secret
}

const (
	maxInvoiceExpiry = 24 * time.Hour
	maxCLTVDelta     = 2012 // blocks: LND pays only invoices whose final CLTV plus 3 blocks is below its max-cltv-expiry, by default 2016

	// A receiver's own LND asks for 80 blocks. The sending LND adds 3, and refuses a payment that may take no more than
	// these. So this much of the time for which the payer's money may be locked must be left for the receiver's
	// invoice.
	maxDistance = wrap.MaxOuterCLTV - (80 + 3 + 1) - paidaction.SettleBlocks
)

// Check refuses settings with which the service cannot run. The error has one sentence per problem, which says what to
// change.
func (c *Config) Check() error {
	var problems []error
	refuse := func(when bool, format string, args ...any) {
		if when {
			problems = append(problems, fmt.Errorf(format, args...))
		}
	}
	refuse(len(c.Secret) == 0 && !c.Development,
		"There is no secret: set HOLDFAST_SECRET to 32 random bytes in hex, for example from `openssl rand -hex 32`, and keep it.")
	refuse(len(c.Secret) > 0 && len(c.Secret) < 32, "The secret has %d bytes: give it at least 32, which are 64 hex digits.", len(c.Secret))
	refuse(len(c.OperatorKey) > 0 && len(c.OperatorKey) < 32, "The operator's key has %d bytes: give it at least 32, for example from `openssl rand -hex 32`.", len(c.OperatorKey))
	refuse(len(c.OperatorKey) > 0 && subtle.ConstantTimeCompare(c.OperatorKey, c.Secret) == 1,
		"The operator's key is the same as the secret, which nobody should ever type: set HOLDFAST_OPERATOR_KEY to random bytes of its own.")
	refuse(c.Development && c.Network == "mainnet",
		"Development mode lets anybody in: unset HOLDFAST_DEVELOPMENT, or set HOLDFAST_NETWORK to regtest, simnet, signet or testnet.")
	refuse(c.DemoWallet != "" && (!c.Development || c.Network == "mainnet"),
		"A demo wallet pays for whoever asks: unset HOLDFAST_DEMO_WALLET, which is for development on a network whose coins are worth nothing.")
	refuse(len(c.Roles) == 0, "This process has nothing to do: set HOLDFAST_ROLES to one or more of api, worker, listener.")
	refuse(len(c.Nodes) == 0 && c.Has("listener") && len(c.Roles) == 1,
		"A listener without a node has nothing to listen to: set HOLDFAST_NODES, or add another role.")
	refuse(!listenable(c.Listen), "Nobody can listen on %q: set HOLDFAST_LISTEN to HOST:PORT, such as 127.0.0.1:8080.", c.Listen)
	refuse(c.DatabasePool < 4, "With %d database connections jobs and requests would wait for each other: set HOLDFAST_DATABASE_POOL to 4 or more.", c.DatabasePool)
	refuse(c.InvoiceExpiry < paidaction.MinInvoiceExpiry || c.InvoiceExpiry > maxInvoiceExpiry,
		"Invoices would expire after %s: set HOLDFAST_INVOICE_EXPIRY to between %s and %s.", c.InvoiceExpiry, paidaction.MinInvoiceExpiry, maxInvoiceExpiry)
	refuse(c.HoldExpiryDelta < 1 || c.SafetyBlocks < 1,
		"Held payments need a safety distance from the height at which a node gives them back: set HOLDFAST_HOLD_EXPIRY_DELTA and HOLDFAST_SAFETY_BLOCKS to 1 block or more.")
	// In 64 bits, so that the sum cannot overflow.
	distance := uint64(c.HoldExpiryDelta) + uint64(c.SafetyBlocks)
	refuse(distance > maxDistance,
		"Nothing could be passed on to a receiver's wallet before a node gives the payment back: set HOLDFAST_HOLD_EXPIRY_DELTA (%d blocks) and HOLDFAST_SAFETY_BLOCKS (%d blocks) to %d blocks or less together.",
		c.HoldExpiryDelta, c.SafetyBlocks, maxDistance)
	refuse(distance <= maxDistance && uint64(c.CLTVDelta) < distance+paidaction.SettleBlocks,
		"A final CLTV of %d blocks leaves less than %d to settle in: set HOLDFAST_CLTV_DELTA to %d blocks or more (hold expiry delta %d + safety blocks %d + %[2]d).",
		c.CLTVDelta, paidaction.SettleBlocks, distance+paidaction.SettleBlocks, c.HoldExpiryDelta, c.SafetyBlocks)
	refuse(c.CLTVDelta > maxCLTVDelta, "No LND would lock money for a final CLTV of %d blocks: set HOLDFAST_CLTV_DELTA to %d blocks or less.", c.CLTVDelta, maxCLTVDelta)
	unfit := c.Prices.Community().Check()
	refuse(unfit != nil, "The prices cannot be used: %w.", unfit)
	refuse(c.MaxPending < 1, "Nobody could get an invoice: set HOLDFAST_MAX_PENDING to 1 or more.")
	refuse(c.ReconcileEvery < 0 || (c.ReconcileEvery > 0 && c.ReconcileEvery < time.Second),
		"Reconciling would never pause: set HOLDFAST_RECONCILE_EVERY to 1s or more, or to 0.")
	c.PublicURL.check(c.Development, refuse)
	checkOrigins(c.Origins, refuse)
	c.SignIn.check(c.Development, refuse)
	c.Bounds.check(refuse)
	c.Lock.check(c.Sends(), refuse)
	c.Rate.check(refuse)
	c.Sending.check(refuse)
	c.Relay.check(refuse)
	return errors.Join(problems...)
}

// listenable reports whether an address is a host, or none, and a port.
func listenable(address string) bool {
	_, port, err := net.SplitHostPort(address)
	if err == nil {
		_, err = net.LookupPort("tcp", port)
	}
	return err == nil
}

// Database is the address of a PostgreSQL database; its password is not shown.
type Database string

// UnmarshalText implements encoding.TextUnmarshaler. Migrations need the URL form.
func (d *Database) UnmarshalText(text []byte) error {
	if !strings.HasPrefix(string(text), "postgres://") && !strings.HasPrefix(string(text), "postgresql://") {
		return errors.New("the database must be given as a URL, postgres://USER:PASSWORD@HOST:PORT/NAME")
	}
	if _, err := url.Parse(string(text)); err != nil {
		// The error of url.Parse quotes the whole URL, password included.
		return errors.New("the database's URL cannot be read: characters such as @ / : in the password must be %-encoded")
	}
	*d = Database(text)
	return nil
}

// String is the address without passwords: neither the user's nor those among the parameters, such as the password of a
// certificate's key.
func (d Database) String() string {
	u, err := url.Parse(string(d))
	if err != nil {
		return "(unreadable)"
	}
	// By hand, because url.Values omits parameters that it cannot read, and the password may be among those.
	parameters := strings.Split(u.RawQuery, "&")
	for i, parameter := range parameters {
		written, _, _ := strings.Cut(parameter, "=")
		if name, err := url.QueryUnescape(written); err != nil || strings.Contains(strings.ToLower(name), "password") {
			parameters[i] = written + "=xxxxx"
		}
	}
	u.RawQuery = strings.Join(parameters, "&")
	return u.Redacted()
}

// toolParameters say where a database is and as whom to ask it. psql and pg_dump know them; they refuse others that an
// address may have, such as settings of the server or of our pool.
var toolParameters = []string{"host", "port", "user", "dbname", "sslmode", "sslcert", "sslkey", "sslrootcert", "passfile", "service", "target_session_attrs"}

// ForTools is the address for psql and pg_dump, quoted for a shell. It has no password: they ask for it.
func (d Database) ForTools() string {
	u, err := url.Parse(string(d))
	if err != nil {
		return "'(unreadable)'"
	}
	if u.User != nil {
		u.User = url.User(u.User.Username())
	}
	given, known := u.Query(), url.Values{}
	for _, name := range toolParameters {
		if values, ok := given[name]; ok {
			known[name] = values[:1]
		}
	}
	u.RawQuery = known.Encode()
	return "'" + strings.ReplaceAll(u.String(), "'", "%27") + "'"
}

// Secret is bytes that are given in hex and never shown.
type Secret []byte

// UnmarshalText implements encoding.TextUnmarshaler.
func (s *Secret) UnmarshalText(text []byte) error {
	raw, err := hex.DecodeString(strings.TrimSpace(string(text)))
	if err != nil {
		return errors.New("the secret must be hex digits, two for each byte") // without quoting it
	}
	*s = raw
	return nil
}

// String says only whether there is a secret.
func (s Secret) String() string {
	if len(s) == 0 {
		return "(none)"
	}
	return "(set)"
}
