package lightning

import (
	"context"

	"google.golang.org/grpc"

	"github.com/lightningnetwork/lnd/lnrpc"
	"github.com/lightningnetwork/lnd/lnrpc/chainrpc"
	"github.com/lightningnetwork/lnd/lnrpc/invoicesrpc"
	"github.com/lightningnetwork/lnd/lnrpc/routerrpc"
)

// These interfaces are all that is used of lnd's generated clients: a method that is not here is not called.

type mainRPC interface {
	AddInvoice(context.Context, *lnrpc.Invoice, ...grpc.CallOption) (*lnrpc.AddInvoiceResponse, error)
	LookupInvoice(context.Context, *lnrpc.PaymentHash, ...grpc.CallOption) (*lnrpc.Invoice, error)
	ListInvoices(context.Context, *lnrpc.ListInvoiceRequest, ...grpc.CallOption) (*lnrpc.ListInvoiceResponse, error)
	SubscribeInvoices(context.Context, *lnrpc.InvoiceSubscription, ...grpc.CallOption) (lnrpc.Lightning_SubscribeInvoicesClient, error)
	GetNodeInfo(context.Context, *lnrpc.NodeInfoRequest, ...grpc.CallOption) (*lnrpc.NodeInfo, error)
	DecodePayReq(context.Context, *lnrpc.PayReqString, ...grpc.CallOption) (*lnrpc.PayReq, error)
	GetInfo(context.Context, *lnrpc.GetInfoRequest, ...grpc.CallOption) (*lnrpc.GetInfoResponse, error)
	CheckMacaroonPermissions(context.Context, *lnrpc.CheckMacPermRequest, ...grpc.CallOption) (*lnrpc.CheckMacPermResponse, error)
	ChannelBalance(context.Context, *lnrpc.ChannelBalanceRequest, ...grpc.CallOption) (*lnrpc.ChannelBalanceResponse, error)
	ListChannels(context.Context, *lnrpc.ListChannelsRequest, ...grpc.CallOption) (*lnrpc.ListChannelsResponse, error)
	ListPayments(context.Context, *lnrpc.ListPaymentsRequest, ...grpc.CallOption) (*lnrpc.ListPaymentsResponse, error)
}

type invoicesRPC interface {
	AddHoldInvoice(context.Context, *invoicesrpc.AddHoldInvoiceRequest, ...grpc.CallOption) (*invoicesrpc.AddHoldInvoiceResp, error)
	SettleInvoice(context.Context, *invoicesrpc.SettleInvoiceMsg, ...grpc.CallOption) (*invoicesrpc.SettleInvoiceResp, error)
	CancelInvoice(context.Context, *invoicesrpc.CancelInvoiceMsg, ...grpc.CallOption) (*invoicesrpc.CancelInvoiceResp, error)
	SubscribeSingleInvoice(context.Context, *invoicesrpc.SubscribeSingleInvoiceRequest, ...grpc.CallOption) (invoicesrpc.Invoices_SubscribeSingleInvoiceClient, error)
}

type routerRPC interface {
	SendPaymentV2(context.Context, *routerrpc.SendPaymentRequest, ...grpc.CallOption) (routerrpc.Router_SendPaymentV2Client, error)
	TrackPaymentV2(context.Context, *routerrpc.TrackPaymentRequest, ...grpc.CallOption) (routerrpc.Router_TrackPaymentV2Client, error)
}

type chainRPC interface {
	RegisterBlockEpochNtfn(context.Context, *chainrpc.BlockEpoch, ...grpc.CallOption) (chainrpc.ChainNotifier_RegisterBlockEpochNtfnClient, error)
}
