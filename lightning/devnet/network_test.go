package devnet_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/a-seed-a7aed72f/holdfast/internal/child"
	"github.com/a-seed-a7aed72f/holdfast/lightning/devnet"
)

func programs(t *testing.T) string {
	t.Helper()
	bin, err := devnet.Programs(t.Context(), os.Stderr)
	if err != nil {
		t.Fatal(err)
	}
	return bin
}

func start(t *testing.T, dir, bin string, nativeSQL ...string) *devnet.Network {
	t.Helper()
	begun := time.Now()
	network, err := devnet.Start(t.Context(), devnet.Options{Dir: dir, Bin: bin, NativeSQL: nativeSQL, Log: t.Logf})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("started in %v", time.Since(begun).Round(100*time.Millisecond))
	t.Cleanup(network.Stop)
	return network
}

// pays sends 50,000 sats from one node to another.
func pays(t *testing.T, network *devnet.Network, from, to string) devnet.Payment {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	const msat = 50_000_000
	invoice, err := network.Node(to).Invoice(ctx, msat, "test")
	if err != nil {
		t.Fatal(err)
	}
	begun := time.Now()
	payment, err := network.Node(from).Pay(ctx, invoice)
	if err != nil {
		t.Fatal(err)
	}
	if !payment.Settled || payment.AmountMsat != msat {
		t.Fatalf("%s pays %s: %+v", from, to, payment)
	}
	t.Logf("%s paid %s in %v", from, to, time.Since(begun).Round(time.Millisecond))
	return payment
}

func TestNodesPayEachOtherOverStartsAndCrashes(t *testing.T) {
	dir, bin := t.TempDir(), programs(t)
	network := start(t, dir, bin)
	for _, ours := range network.Ours() {
		pays(t, network, devnet.Payer, ours.Name())
		// The payer's node charges 250 msat and a thousandth.
		if p := pays(t, network, ours.Name(), devnet.Receiver); p.FeeMsat != 250+50_000 {
			t.Errorf("the payer's node took %d msat for forwarding", p.FeeMsat)
		}
		pays(t, network, devnet.Receiver, ours.Name())
		pays(t, network, ours.Name(), devnet.Payer)
	}
	receiverTests(t, network)

	before, err := network.Height(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := network.Mine(t.Context(), 3); err != nil {
		t.Fatal(err)
	}
	if after, err := network.Height(t.Context()); err != nil || after != before+3 {
		t.Errorf("height %d after mining 3 blocks on %d (%v)", after, before, err)
	}

	// The chain is killed before btcd has written anything about the channels.
	network.KillChain()
	if err := network.ResumeChain(t.Context()); err != nil {
		t.Fatal(err)
	}
	if after, err := network.Height(t.Context()); err != nil || after != before+3 {
		t.Errorf("height %d after btcd was killed at %d (%v)", after, before+3, err)
	}
	// A node that reconnects to btcd after a block was mined hears of that block only with the next one.
	if err := network.Mine(t.Context(), 1); err != nil {
		t.Log(err)
		if err := network.Mine(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
	}

	for name, again := range map[string]func() error{
		"restart": func() error { return network.RestartNode(t.Context(), devnet.Holdfast) },
		"kill": func() error {
			network.KillNode(devnet.Holdfast)
			return network.StartNode(t.Context(), devnet.Holdfast)
		},
	} {
		begun := time.Now()
		if err := again(); err != nil {
			t.Fatal(err)
		}
		t.Logf("%s of a node: %v", name, time.Since(begun).Round(100*time.Millisecond))
		pays(t, network, devnet.Payer, devnet.Holdfast)
	}

	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := devnet.Start(ctx, devnet.Options{Dir: dir, Bin: bin}); !errors.Is(err, child.ErrClaimed) {
		t.Errorf("a second network in the same directory: %v", err)
	}

	begun := time.Now()
	network.Stop()
	t.Logf("stopped in %v", time.Since(begun).Round(100*time.Millisecond))
	if _, err := devnet.ReadRecord(dir); !errors.Is(err, devnet.ErrNotRunning) {
		t.Errorf("the record of a stopped network: %v", err)
	}

	// A network of an older version had only one node of ours.
	if err := os.RemoveAll(filepath.Join(dir, devnet.Holdfast2)); err != nil {
		t.Fatal(err)
	}
	address, identity := network.LightningAddress(), network.Node(devnet.Holdfast).Pubkey()
	network = start(t, dir, bin)
	if network.Node(devnet.Holdfast).Pubkey() != identity {
		t.Error("the nodes that were there were not kept")
	}
	if network.LightningAddress() != address {
		t.Errorf("the receiver moved from %s to %s", address, network.LightningAddress())
	}
	for _, ours := range network.Ours() {
		pays(t, network, devnet.Payer, ours.Name())
		pays(t, network, ours.Name(), devnet.Receiver)
	}
	record, err := devnet.ReadRecord(dir)
	if err != nil {
		t.Fatal(err)
	}
	invoice, err := network.Node(devnet.Holdfast).Invoice(t.Context(), 1_000, "by record")
	if err != nil {
		t.Fatal(err)
	}
	if receiver := record.Nodes[devnet.Receiver]; receiver.REST == "" || record.LightningAddress != address {
		t.Errorf("the record does not tell how wallets reach the receiver: %+v", record)
	}
	if payment, err := record.Nodes[devnet.Payer].Pay(t.Context(), invoice); err != nil || !payment.Settled {
		t.Errorf("pay by record: %+v, %v", payment, err)
	}
	wiped(t, network)
	network.Stop()
	select {
	case err := <-network.Died():
		t.Errorf("reported as unasked for: %v", err)
	default:
	}
}

// wiped: a node comes back under its name and knows nothing.
func wiped(t *testing.T, network *devnet.Network) {
	node := network.Node(devnet.Holdfast2)
	before := node.Pubkey()
	begun := time.Now()
	if err := network.WipeNode(t.Context(), node.Name()); err != nil {
		t.Fatal(err)
	}
	t.Logf("wipe of a node: %v", time.Since(begun).Round(100*time.Millisecond))
	if node.Pubkey() == before {
		t.Error("a wiped node is still the same")
	}
	pays(t, network, devnet.Payer, node.Name())
	pays(t, network, node.Name(), devnet.Receiver)
}

func TestAHalfMadeNetworkIsBegunAnew(t *testing.T) {
	dir := t.TempDir()
	for _, part := range []string{"btcd/data", "payer/data/chain"} {
		if err := os.MkdirAll(filepath.Join(dir, part), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	ruin := filepath.Join(dir, "payer", "tls.cert")
	if err := os.WriteFile(ruin, []byte("cut of"), 0o600); err != nil {
		t.Fatal(err)
	}
	pays(t, start(t, dir, programs(t)), devnet.Payer, devnet.Holdfast)
}

func TestAMissingProgramIsNamed(t *testing.T) {
	_, err := devnet.Start(t.Context(), devnet.Options{Dir: t.TempDir(), Bin: t.TempDir()})
	if !errors.Is(err, os.ErrNotExist) {
		t.Errorf("start without programs: %v", err)
	}
}
