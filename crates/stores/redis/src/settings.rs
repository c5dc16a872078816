//! Limits as data: one hash, its fields `POLICY:LIMIT`, its values `AMOUNT:BURST:SET_AT`, read by all.
//!
//! It has its own thread, because the caller may have no runtime.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::thread;

use redis::{Cmd, FromRedisValue, Value};
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::sync::oneshot;
use tollway_core::bounds::SETTINGS_MAX;
use tollway_core::{
    Fault, FollowedSettings, Name, Retry, Setting, SettingChange, Settings, SettingsAnswer, StoreError,
    Timestamp,
};

use crate::address::Layout;
use crate::error::{not_understood, wrong};
use crate::keys::Keys;
use crate::link::draw_writer;
use crate::servers::Servers;

/// How many questions may wait.
const QUEUE_MAX: usize = 64;

/// Sets one field, within the bound. Atomic, so that two processes cannot both set the last one.
const SET: &str = "local time = redis.call('TIME')
if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0 and redis.call('HLEN', KEYS[1]) >= tonumber(ARGV[3]) then return 0 end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[2] .. ':' .. time[1] .. string.format('%06d', time[2]))
return 1";

/// Reads all fields, counts the limiters that read them within a minute, and registers one: `ARGV[1]` is empty if it only
/// counts. A server that refuses the write (full, read-only) answers all the same. The time is written every ten seconds.
const FOLLOW: &str = "local now = tonumber(redis.call('TIME')[1])
local settings = redis.call('HGETALL', KEYS[1])
local known = redis.pcall('ZSCORE', KEYS[2], ARGV[2])
if type(known) == 'table' then known = false end
if ARGV[1] ~= '' and (not known or now - tonumber(known) >= 10) then
  redis.pcall('ZREMRANGEBYSCORE', KEYS[2], '-inf', now - 60)
  redis.pcall('ZADD', KEYS[2], now, ARGV[2])
  redis.pcall('EXPIRE', KEYS[2], 120)
end
local counted = redis.pcall('ZCOUNT', KEYS[2], now - 59, '+inf')
if type(counted) == 'table' then return {settings, 0} end
local seen = redis.pcall('ZSCORE', KEYS[2], ARGV[2])
if not seen or type(seen) == 'table' or tonumber(seen) < now - 59 then counted = counted + 1 end
return {settings, counted}";

/// The settings of a store in Redis.
#[derive(Clone)]
pub(crate) struct RedisSettings {
    key: String,
    /// The key of the limiters; none in a layout that other programs share, which do not register.
    limiters: Option<String>,
    /// The name of this limiter among them.
    name: String,
    questions: Sender<Question>,
}

struct Question {
    command: Cmd,
    answer: oneshot::Sender<Result<Value, StoreError>>,
}

impl RedisSettings {
    pub(crate) fn start(keys: &Keys, layout: Layout, servers: Servers) -> std::io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let (questions, waiting) = channel(QUEUE_MAX);
        let key = keys.settings();
        thread::Builder::new()
            .name("tollway-settings".to_owned())
            .spawn(move || runtime.block_on(answer_all(Arc::new(servers), key, waiting)))?;
        let limiters = (layout == Layout::Lines).then(|| keys.limiters());
        Ok(Self { key: keys.settings(), limiters, name: format!("{:032x}", draw_writer()), questions })
    }

    /// Sends one command.
    pub(crate) fn ask(&self, command: Cmd) -> SettingsAnswer<Value> {
        let (answer, answered) = oneshot::channel();
        let sent = self.questions.try_send(Question { command, answer });
        Box::pin(async move {
            let failed = |message: &str| StoreError {
                fault: Fault::Store,
                retry: Retry::Safe,
                message: message.to_owned(),
            };
            sent.map_err(|_| failed("too many questions about settings wait already"))?;
            answered.await.map_err(|_| failed("the store was closed"))?
        })
    }
}

impl Settings for RedisSettings {
    fn settings(&self) -> SettingsAnswer<Vec<Setting>> {
        let mut command = redis::cmd("HGETALL");
        command.arg(&self.key);
        let answer = self.ask(command);
        Box::pin(async move { read_all(answer.await?) })
    }

    fn follow(&self, registers: bool) -> SettingsAnswer<FollowedSettings> {
        let Some(limiters) = &self.limiters else {
            let settings = self.settings();
            return Box::pin(
                async move { Ok(FollowedSettings { settings: settings.await?, limiters: None }) },
            );
        };
        let mut command = redis::cmd("EVAL");
        let registers = if registers { "1" } else { "" };
        command.arg(FOLLOW).arg(2).arg(&self.key).arg(limiters).arg(registers).arg(&self.name);
        let answer = self.ask(command);
        Box::pin(async move {
            let read = <(Value, u32)>::from_redis_value(answer.await?);
            let (settings, limiters) = read.map_err(|error| not_understood(&error.to_string()))?;
            Ok(FollowedSettings { settings: read_all(settings)?, limiters: NonZeroU32::new(limiters) })
        })
    }

    fn change(&self, change: SettingChange) -> SettingsAnswer<()> {
        let field = format!("{}:{}", change.policy, change.limit);
        let command = match change.amounts {
            Some((amount, burst)) => {
                let burst = burst.map(|burst| burst.to_string()).unwrap_or_default();
                let mut command = redis::cmd("EVAL");
                command
                    .arg(SET)
                    .arg(1)
                    .arg(&self.key)
                    .arg(field)
                    .arg(format!("{amount}:{burst}"))
                    .arg(SETTINGS_MAX);
                command
            }
            None => {
                let mut command = redis::cmd("HDEL");
                command.arg(&self.key).arg(field);
                command
            }
        };
        let (answer, sets) = (self.ask(command), change.amounts.is_some());
        Box::pin(async move {
            match answer.await? {
                Value::Int(0) if sets => {
                    Err(wrong(format!("{SETTINGS_MAX} limits are set already; clear some first")))
                }
                Value::Int(_) => Ok(()),
                other => Err(not_understood(&format!("{other:?}"))),
            }
        })
    }
}

async fn answer_all(servers: Arc<Servers>, key: String, mut waiting: Receiver<Question>) {
    while let Some(Question { command, answer }) = waiting.recv().await {
        let _ = answer.send(servers.ask(&key, &command).await);
    }
}

fn read_all(answer: Value) -> Result<Vec<Setting>, StoreError> {
    let pairs = Vec::<(String, String)>::from_redis_value(answer);
    let pairs = pairs.map_err(|error| not_understood(&error.to_string()))?;
    pairs.iter().map(|(field, value)| read(field, value)).collect()
}

fn read(field: &str, value: &str) -> Result<Setting, StoreError> {
    let parsed = || {
        let (policy, limit) = field.split_once(':')?;
        let mut parts = value.split(':');
        let (amount, burst, set_at) = (parts.next()?, parts.next()?, parts.next()?);
        Some(Setting {
            policy: Name::new(policy).ok()?,
            limit: Name::new(limit).ok()?,
            amount: amount.parse().ok()?,
            burst: if burst.is_empty() { None } else { Some(burst.parse().ok()?) },
            set_at: Timestamp::from_micros(set_at.parse().ok()?),
        })
    };
    parsed().ok_or_else(|| not_understood(&format!("the setting {field:?} is {value:?}")))
}
