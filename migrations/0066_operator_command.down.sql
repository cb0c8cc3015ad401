DROP TABLE operator_command;
