//! The protocol of redis, as far as a client needs it that only wants to know when a reply is whole.

use thiserror::Error;

/// Bytes that are no reply.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum ReplyError {
    /// The server answered with an error.
    #[error("redis answered: {0}")]
    Refused(String),
    /// The bytes are not of this protocol.
    #[error("redis sent {0:?}, which is not of its protocol")]
    Malformed(String),
}

/// A command with its arguments, as bytes to send.
pub fn command(words: &[&[u8]]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", words.len()).into_bytes();
    for word in words {
        bytes.extend(format!("${}\r\n", word.len()).into_bytes());
        bytes.extend_from_slice(word);
        bytes.extend_from_slice(b"\r\n");
    }
    bytes
}

/// Collects bytes as they come and tells when replies are whole.
#[derive(Debug, Default)]
pub struct Replies {
    bytes: Vec<u8>,
    /// How much of `bytes` belongs to elements that are whole.
    read: usize,
    /// Elements that the reply at the front still lacks; none: between two replies.
    lacking: usize,
}

impl Replies {
    /// Takes bytes that came.
    pub fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// Removes the reply at the front, if it is whole. What was looked at is not looked at again, so
    /// a long reply that comes in pieces costs no more than one that comes at once.
    pub fn take(&mut self) -> Result<bool, ReplyError> {
        if self.lacking == 0 {
            self.lacking = 1;
        }
        while self.lacking > 0 {
            let rest = self.bytes.get(self.read..).unwrap_or_default();
            let Some((length, children)) = element(rest)? else {
                return Ok(false);
            };
            self.read += length;
            self.lacking += children;
            self.lacking -= 1;
        }
        self.bytes.drain(..self.read);
        self.read = 0;
        Ok(true)
    }
}

/// The length of the element at the front and the number of elements that it announces; `None`
/// while it is not whole.
fn element(bytes: &[u8]) -> Result<Option<(usize, usize)>, ReplyError> {
    let Some(end) = bytes.windows(2).position(|pair| pair == b"\r\n") else {
        return Ok(None);
    };
    let line = bytes.get(..end).unwrap_or_default();
    let malformed = || ReplyError::Malformed(String::from_utf8_lossy(line).into_owned());
    let text = std::str::from_utf8(line.get(1..).unwrap_or_default()).map_err(|_| malformed())?;
    let count = || text.parse::<i64>().map_err(|_| malformed());
    let head = end + 2;
    match line.first() {
        Some(b'+' | b':') => Ok(Some((head, 0))),
        Some(b'-') => Err(ReplyError::Refused(text.to_owned())),
        Some(b'$') => match usize::try_from(count()?) {
            Ok(length) => {
                let whole = head.checked_add(length + 2).ok_or_else(malformed)?;
                Ok((bytes.len() >= whole).then_some((whole, 0)))
            }
            Err(_) => Ok(Some((head, 0))), // −1: no value
        },
        Some(b'*') => Ok(Some((head, usize::try_from(count()?).unwrap_or(0)))),
        _ => Err(malformed()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn whole(bytes: &[u8]) -> usize {
        let mut replies = Replies::default();
        replies.push(bytes);
        let mut count = 0;
        while replies.take().unwrap() {
            count += 1;
        }
        count
    }

    #[test]
    fn commands_are_arrays_of_strings() {
        assert_eq!(
            command(&[b"GET", b"k1"]),
            b"*2\r\n$3\r\nGET\r\n$2\r\nk1\r\n"
        );
    }

    #[test]
    fn each_kind_of_reply() {
        assert_eq!(
            whole(b"+OK\r\n:12\r\n$-1\r\n$0\r\n\r\n$2\r\nab\r\n*0\r\n*-1\r\n"),
            7
        );
        assert_eq!(whole(b"*2\r\n$1\r\na\r\n*2\r\n:1\r\n:2\r\n+OK\r\n"), 2);
        // A string may contain what ends a line.
        assert_eq!(whole(b"$4\r\n\r\n\r\n\r\n+OK\r\n"), 2);
    }

    #[test]
    fn errors_and_nonsense() {
        let mut replies = Replies::default();
        replies.push(b"-ERR unknown command\r\n");
        assert_eq!(
            replies.take(),
            Err(ReplyError::Refused("ERR unknown command".into()))
        );
        for nonsense in [
            &b"hello\r\n"[..],
            b"$x\r\n",
            b"\r\n",
            b"$9223372036854775807\r\n",
        ] {
            let mut replies = Replies::default();
            replies.push(nonsense);
            assert!(!matches!(replies.take(), Ok(true)), "{nonsense:?}");
        }
    }

    proptest! {
        #[test]
        fn replies_may_be_cut_anywhere(cuts in prop::collection::vec(0usize..60, 0..5)) {
            let bytes = b"*2\r\n$5\r\nhello\r\n*2\r\n:1\r\n$-1\r\n+OK\r\n$2\r\n\r\n\r\n:7\r\n";
            let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(bytes.len())).collect();
            cuts.extend([0, bytes.len()]);
            cuts.sort_unstable();
            let mut replies = Replies::default();
            let mut count = 0;
            for piece in cuts.windows(2) {
                replies.push(&bytes[piece[0]..piece[1]]);
                while replies.take().unwrap() {
                    count += 1;
                }
            }
            prop_assert_eq!(count, 4);
        }
    }
}
