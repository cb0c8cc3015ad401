package devnet

import (
	"context"
	"crypto/sha256"
	"encoding/json"

	"github.com/btcsuite/btcd/btcec/v2"
	"github.com/btcsuite/btcd/btcutil"
	"github.com/btcsuite/btcd/chaincfg"
	"github.com/btcsuite/btcd/txscript"
	"github.com/btcsuite/btcd/wire"
)

// miningKey owns every mined coin. It is no secret: the coins of a simnet exist on one machine and are worthless. A
// node's wallet does not mine, for two reasons: btcd needs the address before any node can run, and a wallet that
// receives every block's reward gets slower with every block.
func miningKey() *btcec.PrivateKey {
	seed := sha256.Sum256([]byte("the miner of the development network"))
	key, _ := btcec.PrivKeyFromBytes(seed[:])
	return key
}

func miningAddress() (string, error) {
	public := btcutil.Hash160(miningKey().PubKey().SerializeCompressed())
	address, err := btcutil.NewAddressPubKeyHash(public, &chaincfg.SimNetParams)
	if err != nil {
		return "", err
	}
	return address.EncodeAddress(), nil
}

// payout spends the oldest unspent reward to the addresses, in equal parts.
func (c *chain) payout(ctx context.Context, addresses []string) (*wire.MsgTx, error) {
	reward, err := c.unspentReward(ctx)
	if err != nil {
		return nil, err
	}
	const fee = 20_000 // sats; plenty for about 800 bytes
	part := (reward.TxOut[0].Value - fee) / int64(len(addresses))

	tx := wire.NewMsgTx(2)
	hash := reward.TxHash()
	tx.AddTxIn(wire.NewTxIn(wire.NewOutPoint(&hash, 0), nil, nil))
	for _, text := range addresses {
		address, err := btcutil.DecodeAddress(text, &chaincfg.SimNetParams)
		if err != nil {
			return nil, err
		}
		script, err := txscript.PayToAddrScript(address)
		if err != nil {
			return nil, err
		}
		tx.AddTxOut(wire.NewTxOut(part, script))
	}
	tx.TxIn[0].SignatureScript, err = txscript.SignatureScript(tx, 0, reward.TxOut[0].PkScript, txscript.SigHashAll, miningKey(), true)
	return tx, err
}

// unspentReward is the oldest block reward that nobody has spent.
func (c *chain) unspentReward(ctx context.Context) (*wire.MsgTx, error) {
	for height := 1; ; height++ {
		block, err := c.block(ctx, height)
		if err != nil {
			return nil, err
		}
		reward := block.Transactions[0]
		if len(reward.TxOut) == 0 {
			return nil, errNoCoins
		}
		var unspent *json.RawMessage // null if it is spent
		if err := c.call(ctx, &unspent, "gettxout", reward.TxHash().String(), 0, true); err != nil {
			return nil, err
		}
		if unspent != nil {
			return reward, nil
		}
	}
}
