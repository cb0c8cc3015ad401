package lndtest

import (
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	graphdb "github.com/lightningnetwork/lnd/graph/db"
	"github.com/lightningnetwork/lnd/lnrpc"
	"github.com/lightningnetwork/lnd/lnrpc/chainrpc"
	"github.com/lightningnetwork/lnd/lnrpc/invoicesrpc"
	"github.com/lightningnetwork/lnd/lnrpc/verrpc"
	"github.com/lightningnetwork/lnd/lnwire"
)

// chainServer is chainrpc.ChainNotifier.
type chainServer struct {
	chainrpc.UnimplementedChainNotifierServer
	*Server
}

// versionServer is verrpc.Versioner.
type versionServer struct {
	verrpc.UnimplementedVersionerServer
	*Server
}

var errChainless = errors.New("unable to get best block info: -28: Loading block index")

func (s *mainServer) GetInfo(ctx context.Context, _ *lnrpc.GetInfoRequest) (*lnrpc.GetInfoResponse, error) {
	chain, err := s.Node.Chain(ctx)
	if err != nil {
		return nil, answer(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.chainless {
		return nil, errChainless
	}
	var features map[uint32]*lnrpc.Feature
	if s.keysend {
		features = map[uint32]*lnrpc.Feature{uint32(lnwire.KeysendOptional): {Name: "keysend", IsKnown: true}}
	}
	return &lnrpc.GetInfoResponse{
		Features:       features,
		IdentityPubkey: publicKey(cmp.Or(s.answersAs, s.Node.Name())),
		Alias:          s.Node.Name(), Version: s.version,
		Chains:      []*lnrpc.Chain{{Chain: "bitcoin", Network: network.Name}},
		BlockHeight: chain.Height, SyncedToChain: chain.Synced, SyncedToGraph: !s.graphless,
	}, nil
}

func (s *versionServer) GetVersion(context.Context, *verrpc.VersionRequest) (*verrpc.Version, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return &verrpc.Version{Version: s.version}, nil
}

// CheckMacaroonPermissions answers InvalidArgument if the macaroon does not suffice, as LND does. If it is not told
// which permissions are needed, any macaroon suffices; LND before 0.20 does not know the flag by which it is told.
func (s *mainServer) CheckMacaroonPermissions(_ context.Context, in *lnrpc.CheckMacPermRequest) (*lnrpc.CheckMacPermResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	checks := in.CheckDefaultPermsFromFullMethod && !strings.HasPrefix(s.version, "0.1")
	if err := s.permits(in.Macaroon, in.FullMethod); checks && err != nil {
		return nil, status.Error(codes.InvalidArgument, err.Error())
	}
	return &lnrpc.CheckMacPermResponse{Valid: true}, nil
}

// Knows adds another node to the node's graph.
func (s *Server) Knows(key string) { s.set(func() { s.graph[key] = true }) }

func (s *mainServer) GetNodeInfo(_ context.Context, in *lnrpc.NodeInfoRequest) (*lnrpc.NodeInfo, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.graph[in.PubKey] {
		return nil, status.Error(codes.NotFound, graphdb.ErrGraphNodeNotFound.Error())
	}
	return &lnrpc.NodeInfo{Node: &lnrpc.LightningNode{PubKey: in.PubKey}}, nil
}

func (s *mainServer) DecodePayReq(_ context.Context, in *lnrpc.PayReqString) (*lnrpc.PayReq, error) {
	decoded, err := decode(in.PayReq)
	if err != nil {
		return nil, err
	}
	m := &lnrpc.PayReq{
		Destination: hex.EncodeToString(decoded.Destination.SerializeCompressed()),
		PaymentHash: hex.EncodeToString(decoded.PaymentHash[:]),
		Timestamp:   decoded.Timestamp.Unix(), Expiry: int64(decoded.Expiry().Seconds()),
		CltvExpiry: int64(decoded.MinFinalCLTVExpiry()),
		Features:   invoicesrpc.CreateRPCFeatures(decoded.Features),
		RouteHints: invoicesrpc.CreateRPCRouteHints(decoded.RouteHints),
	}
	secret := decoded.PaymentAddr.UnwrapOr([32]byte{})
	m.PaymentAddr = secret[:]
	s.set(func() { s.decoded[secret] = *decoded.PaymentHash })
	if decoded.MilliSat != nil {
		m.NumMsat, m.NumSatoshis = int64(*decoded.MilliSat), int64(decoded.MilliSat.ToSatoshis())
	}
	if decoded.Description != nil {
		m.Description = *decoded.Description
	}
	if decoded.DescriptionHash != nil {
		m.DescriptionHash = hex.EncodeToString(decoded.DescriptionHash[:])
	}
	return m, nil
}

func (s *mainServer) ChannelBalance(context.Context, *lnrpc.ChannelBalanceRequest) (*lnrpc.ChannelBalanceResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return &lnrpc.ChannelBalanceResponse{
		LocalBalance: &lnrpc.Amount{Sat: uint64(s.local.Sats()), Msat: uint64(s.local)},
	}, nil
}

func (s *mainServer) ListChannels(ctx context.Context, in *lnrpc.ListChannelsRequest) (*lnrpc.ListChannelsResponse, error) {
	channels, err := s.Node.Channels(ctx)
	if err != nil {
		return nil, answer(err)
	}
	response := &lnrpc.ListChannelsResponse{}
	for _, c := range channels {
		of := &lnrpc.Channel{Active: true, Capacity: (c.Local + c.Locked).CeilSats(), LocalBalance: c.Local.Sats(), LocalConstraints: &lnrpc.ChannelConstraints{
			MaxAcceptedHtlcs: uint32(c.MostLeaving), MaxPendingAmtMsat: uint64(c.MostLocked)}}
		for i := range c.Leaving {
			amount := int64(0)
			if i == 0 {
				amount = c.Locked.Sats()
			}
			of.PendingHtlcs = append(of.PendingHtlcs, &lnrpc.HTLC{Amount: amount}, &lnrpc.HTLC{Incoming: true, Amount: 1_000_000})
		}
		response.Channels = append(response.Channels, of)
	}
	return response, nil
}

func (s *chainServer) RegisterBlockEpochNtfn(_ *chainrpc.BlockEpoch, out chainrpc.ChainNotifier_RegisterBlockEpochNtfnServer) error {
	return answer(s.Node.WatchBlocks(out.Context(), func(height uint32) error {
		return out.Send(&chainrpc.BlockEpoch{Height: height, Hash: make([]byte, 32)})
	}))
}
