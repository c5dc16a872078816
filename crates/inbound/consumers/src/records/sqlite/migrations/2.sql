-- Of one consumer and scope no two are valid at the same moment. By triggers, so that it holds for every program that writes.
CREATE TRIGGER records_do_not_overlap BEFORE INSERT ON records
WHEN EXISTS (
    SELECT * FROM records AS other
    WHERE other.consumer = NEW.consumer AND other.id <> NEW.id
        AND other.api_name IS NEW.api_name AND other.api_version IS NEW.api_version AND other.bank_id IS NEW.bank_id
        AND other.valid_from <= NEW.valid_to AND other.valid_to >= NEW.valid_from
)
BEGIN
    SELECT RAISE(ABORT, 'a record of the same scope is valid at the same time');
END;

CREATE TRIGGER records_do_not_overlap_changed BEFORE UPDATE ON records
WHEN EXISTS (
    SELECT * FROM records AS other
    WHERE other.consumer = NEW.consumer AND other.id <> NEW.id
        AND other.api_name IS NEW.api_name AND other.api_version IS NEW.api_version AND other.bank_id IS NEW.bank_id
        AND other.valid_from <= NEW.valid_to AND other.valid_to >= NEW.valid_from
)
BEGIN
    SELECT RAISE(ABORT, 'a record of the same scope is valid at the same time');
END;
