DROP FUNCTION must_be_below;
DROP FUNCTION must_begin;
