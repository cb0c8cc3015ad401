DROP FUNCTION must_cover;
