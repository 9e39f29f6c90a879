//! Who would pay, as far as it can be known before Slurm resolves it: the ledger charges the record's association.

use super::Case;
use super::refusal::Refusal;
use crate::snapshot::AssociationKey;

impl Case<'_> {
    /// The account whose funds are checked.
    pub(super) fn account(&self) -> Result<String, Refusal> {
        let uid = self.submission.uid;
        let user = self.snapshot.users.get(&uid);
        // Slurm itself takes account names in lower case, but only after the plugin.
        let given =
            self.submission.account.as_deref().filter(|account| !account.is_empty()).map(str::to_lowercase);
        let account = match (given, user) {
            (Some(account), Some(user)) if !self.is_associated(&account) => {
                return Err(Refusal::no_association(&user.name, &account));
            }
            (Some(account), _) => account,
            (None, Some(user)) if !user.default_account.is_empty() => user.default_account.clone(),
            (None, _) => return Err(Refusal::no_account(uid)),
        };
        if self.snapshot.accounts.contains_key(&account) {
            Ok(account)
        } else {
            Err(Refusal::unknown_account(&account))
        }
    }

    /// In general, or in one of the partitions.
    fn is_associated(&self, account: &str) -> bool {
        let has = |partition: &str| self.association(account, partition).is_some();
        has("") || self.scope.partitions.iter().any(|(name, _)| has(name))
    }

    /// The default QOS of the association that Slurm would take, that of the partition first.
    pub(super) fn default_qos(&self) -> Option<&str> {
        let user = self.snapshot.users.get(&self.submission.uid)?;
        let given =
            self.submission.account.as_deref().filter(|account| !account.is_empty()).map(str::to_lowercase);
        let account = given.as_deref().unwrap_or(&user.default_account);
        let of_partition = self.scope.partitions.iter().find_map(|(name, _)| self.association(account, name));
        of_partition.or_else(|| self.association(account, "")).filter(|qos| !qos.is_empty())
    }

    fn association(&self, account: &str, partition: &str) -> Option<&str> {
        let key = AssociationKey {
            account: account.to_owned(),
            uid: self.submission.uid,
            partition: partition.to_owned(),
        };
        self.snapshot.associations.get(&key).map(String::as_str)
    }
}
