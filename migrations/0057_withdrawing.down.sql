DROP INDEX relay_payment_withdrawing;
