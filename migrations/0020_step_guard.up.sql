-- The guards of a step as conditions in a function, which a connection plans once. As conditions of the triggers (WHEN) they were planned anew by
-- every statement, and the allowed way, which is every one, paid for it.
CREATE OR REPLACE FUNCTION refuse_action_step() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'INSERT' THEN
        IF action_step_allowed(NEW.flow, '', NEW.state::text) THEN
            RETURN NEW;
        END IF;
        RAISE EXCEPTION 'paid_action: % cannot begin in %', NEW.flow, NEW.state USING ERRCODE = 'HF001';
    ELSIF TG_OP = 'UPDATE' THEN
        IF OLD.flow = NEW.flow AND OLD.payer_id IS NOT DISTINCT FROM NEW.payer_id AND OLD.cost_msat = NEW.cost_msat
            AND OLD.kind = NEW.kind AND OLD.method = NEW.method
            AND (OLD.state = NEW.state OR action_step_allowed(OLD.flow, OLD.state::text, NEW.state::text)) THEN
            RETURN NEW;
        END IF;
        RAISE EXCEPTION 'paid_action %: % cannot go from % to %', OLD.id, OLD.flow, OLD.state, NEW.state USING ERRCODE = 'HF001';
    END IF;
    RAISE EXCEPTION 'paid_action: rows are never deleted' USING ERRCODE = 'HF001';
END $$;
DROP TRIGGER refuse_beginning ON paid_action;
DROP TRIGGER refuse_step ON paid_action;
CREATE TRIGGER refuse_beginning BEFORE INSERT ON paid_action FOR EACH ROW EXECUTE FUNCTION refuse_action_step();
CREATE TRIGGER refuse_step BEFORE UPDATE ON paid_action FOR EACH ROW EXECUTE FUNCTION refuse_action_step();
