-- Of one consumer and scope no two are valid at the same moment. By a trigger, so that it holds for every program that writes.
-- Whoever writes waits for others who write for the same consumer, and then sees what they wrote. The table is the one beside
-- it, wherever the writer looks for its own.
CREATE FUNCTION consumer_records_do_not_overlap() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    PERFORM pg_advisory_xact_lock(hashtextextended('tollway record of ' || NEW.consumer, 0));
    IF EXISTS (
        SELECT FROM consumer_records AS other
        WHERE other.consumer = NEW.consumer AND other.id <> NEW.id
            AND other.api_name IS NOT DISTINCT FROM NEW.api_name
            AND other.api_version IS NOT DISTINCT FROM NEW.api_version
            AND other.bank_id IS NOT DISTINCT FROM NEW.bank_id
            AND other.valid_from <= NEW.valid_to AND other.valid_to >= NEW.valid_from
    ) THEN
        RAISE exclusion_violation USING MESSAGE = 'a record of the same scope is valid at the same time';
    END IF;
    RETURN NEW;
END $$;

CREATE TRIGGER consumer_records_do_not_overlap BEFORE INSERT OR UPDATE ON consumer_records
    FOR EACH ROW EXECUTE FUNCTION consumer_records_do_not_overlap();
