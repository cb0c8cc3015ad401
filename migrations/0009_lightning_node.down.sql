DROP TABLE lightning_node;
