DROP TABLE secret_print;
