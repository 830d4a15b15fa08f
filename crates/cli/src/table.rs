//! Aligned columns.

/// Rows under headings, each column as wide as its longest cell, two blanks between columns.
#[derive(Debug)]
pub(crate) struct Table {
    rows: Vec<Vec<String>>,
}

// === impl Table ===

impl Table {
    pub(crate) fn new(headings: &[&str]) -> Self {
        Self {
            rows: vec![headings.iter().map(|h| (*h).to_owned()).collect()],
        }
    }

    /// Adds a row. An empty cell is shown as `-`, but for the last column, which holds remarks.
    pub(crate) fn row(&mut self, cells: Vec<String>) {
        let last = cells.len().saturating_sub(1);
        let shown = cells
            .into_iter()
            .enumerate()
            .map(|(i, cell)| match cell.as_str() {
                "" if i < last => "-".to_owned(),
                _ => cell,
            });
        self.rows.push(shown.collect());
    }

    pub(crate) fn render(&self) -> String {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let width = |column: usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(column));
            cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..columns).map(width).collect();
        let mut text = String::new();
        for row in &self.rows {
            let mut line = String::new();
            for (cell, width) in row.iter().zip(&widths) {
                line.push_str(&format!("{cell:width$}  "));
            }
            text.push_str(line.trim_end());
            text.push('\n');
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_longest_cell() {
        let mut table = Table::new(&["CLUSTER", "STATE", ""]);
        table.row(vec!["a".into(), "connected".into(), String::new()]);
        table.row(vec![
            "edge-paris-1".into(),
            String::new(),
            "no answer".into(),
        ]);
        assert_eq!(
            table.render(),
            "CLUSTER       STATE\na             connected\nedge-paris-1  -          no answer\n"
        );
    }
}
