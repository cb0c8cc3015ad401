DROP TABLE wallet_failure, wallet_log, receiver_wallet;
