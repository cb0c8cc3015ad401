DROP TABLE route_probe;
