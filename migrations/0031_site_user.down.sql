DROP TABLE site_user;
