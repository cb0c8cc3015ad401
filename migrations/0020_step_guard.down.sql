DROP TRIGGER refuse_beginning ON paid_action;
DROP TRIGGER refuse_step ON paid_action;
CREATE OR REPLACE FUNCTION refuse_action_step() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'INSERT' THEN
        RAISE EXCEPTION 'paid_action: % cannot begin in %', NEW.flow, NEW.state USING ERRCODE = 'HF001';
    ELSIF TG_OP = 'UPDATE' THEN
        RAISE EXCEPTION 'paid_action %: % cannot go from % to %', OLD.id, OLD.flow, OLD.state, NEW.state USING ERRCODE = 'HF001';
    END IF;
    RAISE EXCEPTION 'paid_action: rows are never deleted' USING ERRCODE = 'HF001';
END $$;
CREATE TRIGGER refuse_beginning BEFORE INSERT ON paid_action FOR EACH ROW
    WHEN (NOT action_step_allowed(NEW.flow, '', NEW.state::text)) EXECUTE FUNCTION refuse_action_step();
CREATE TRIGGER refuse_step BEFORE UPDATE ON paid_action FOR EACH ROW
    WHEN (OLD.flow <> NEW.flow OR OLD.payer_id IS DISTINCT FROM NEW.payer_id OR OLD.cost_msat <> NEW.cost_msat
        OR OLD.kind <> NEW.kind OR OLD.method <> NEW.method
        OR (OLD.state <> NEW.state AND NOT action_step_allowed(OLD.flow, OLD.state::text, NEW.state::text)))
    EXECUTE FUNCTION refuse_action_step();
